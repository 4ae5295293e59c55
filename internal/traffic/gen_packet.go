package traffic
import "errors"
func newPacketGenerator(c Config, dev Device, why string) (Generator, error) { return nil, errors.New("x") }
func newPacketSink(c SinkConfig, dev Device, why []string) (Sink, error) { return nil, errors.New("x") }
