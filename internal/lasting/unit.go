package lasting

import _ "embed" // the unit's text

// unitTemplate is a copy of deploy/systemd/mpps-restore.service, which go:embed cannot reach; a test compares the two.
//
//go:embed mpps-restore.service
var unitTemplate string
