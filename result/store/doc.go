// Package store reads and writes the requests and the samples of a trial as Parquet,
// and writes the tables of many trials. No other package knows Parquet.
//
// The structs requestRow and sampleRow are the schemas. [RequestColumns] and
// [SampleColumns] describe them in words, and the tests check that both agree.
//
// All compression is zstd. The receive times of a trial make up nearly all of
// its bytes; as differences in whole microseconds, plainly encoded, they take
// less than two bytes each. Delta encoding would be faster to write but leaves
// the compressor less to find.
package store
