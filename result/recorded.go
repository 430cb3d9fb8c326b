package result

import "sweep.dev/sweep/result/col"

// Recorded are the columns by which a run says what software it measured, each
// with its name in words. They are null if the run could not see it.
var Recorded = [...]struct{ Column, Name string }{
	{col.ImageDigest, "image digest"},
	{col.EngineVersion, "engine version"},
	{col.ModelRevision, "model revision"},
}
