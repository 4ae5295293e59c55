package planted

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	ActIfAsked()
	os.Exit(m.Run())
}
