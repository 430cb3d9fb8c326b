package plan

// Words of the language that other packages compare with.
const (
	EndpointChat        = "chat"
	EndpointCompletions = "completions"

	OutputExact   = "exact"
	OutputNatural = "natural"

	PromptsSynthetic = "synthetic"
	ReuseAllowed     = "allowed"
	LengthWords      = "words"
	Empirical        = "empirical"

	TraceTimestamps = "timestamps"

	StartStaggered = "staggered"
	StartTogether  = "together"

	ClientAuto = "auto"
	ClientStd  = "std"
	ClientFast = "fast"

	ClientsProcess    = "process"
	ClientsKubernetes = "kubernetes"

	CalibrateNever = "never"

	SeverityFail = "fail"
	SeverityWarn = "warn"

	OrderShuffled       = "shuffled"
	RecordStartFailures = "record"
	PredictedSkip       = "skip"
)
