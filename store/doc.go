// Package store is the stored form of what was observed: the requests and the
// samples of a trial as Parquet, both ways, and the tables that are written
// from many trials. Parquet is known here alone.
//
// The structs requestRow and sampleRow are the schemas. [RequestColumns] and
// [SampleColumns] say in words what they mean, and the tests hold the two
// together.
//
// All compression is zstd. The receive times of a trial make up nearly all of
// its bytes; as differences in whole microseconds, plainly encoded, they take
// less than two bytes each. Delta encoding would be faster to write but leaves
// the compressor less to find.
package store
