// Package gallery makes hosts for tests of advice: each is one file below hosts that says what differs from a base
// (bases), and what must, must not be said and planned there. Facts makes a whole host of it: topology, NICs, guests
// with definitions and threads, and a reading for every address that the catalogue asks for. The host can be written
// to, as if a plan had been applied.
//
// hosts/README.md describes the format. docs/hosts.md is the table of all hosts.
package gallery
