package gpustate

import (
	"bytes"
	"errors"
)

// OfTool reads what a tool printed into a file, whichever it was: nvidia-smi's CSV,
// with a header or with the columns of one of the collector's own questions, its
// XML, the JSON of amd-smi, or that of an HTTP wrapper. whole is as of [ParseCSV].
func OfTool(body []byte, whole bool) (tool string, list []Reading, err error) {
	if trimmed := bytes.TrimSpace(body); bytes.HasPrefix(trimmed, []byte("<")) {
		list, err = ParseXML(trimmed)
		return "nvidia-smi -q -x", list, err
	}
	for _, fields := range append([][]string{Streamed}, Questions...) {
		if list, err = ParseCSV(body, fields, whole); err == nil {
			return "nvidia-smi --query-gpu", list, nil
		}
	}
	if !errors.Is(err, ErrAnswer) {
		return "", nil, err // it says what is the matter with the GPUs
	}
	list, err = ParseWrapper(body, whole)
	return "JSON of a tool of GPUs", list, err
}
