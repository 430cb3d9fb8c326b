package result

// Recorded are the columns by which a run says what software it measured, each
// with its name in words. They are null where the run could not see it.
var Recorded = [...]struct{ Column, Name string }{
	{"image_digest", "image digest"},
	{"engine_version", "engine version"},
	{"model_revision", "model revision"},
}
