//go:build !slow

package slow

// Tests is false: the binary was built without the tag slow.
const Tests = false
