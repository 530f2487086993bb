package broker

// What the tests of deliveries share with those of this package.
var (
	StartNATS  = startNATS
	Stream     = stream
	StartKafka = startKafka
	Records    = read
)
