//go:build slow

package slow

// Tests is true: the binary was built with the tag slow.
const Tests = true
