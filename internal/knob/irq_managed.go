package knob

// PlacedByKernel tells by the name of an interrupt's handler whether nobody can move it. Newer kernels say so themselves, by the
// mode of the interrupt's file (facts.IRQ.Managed).
func PlacedByKernel(handler string) bool { return placedByKernel.MatchString(handler) }
