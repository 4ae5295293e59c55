package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"mpps/internal/measure/traffic/agent"
	"mpps/internal/ops/bench"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// agentReady is the answer of agent, given once it listens.
type agentReady struct {
	Listen string `json:"listen"` // HOST:PORT
	Secret bool   `json:"secret"` // clients must know one
}

func (a *app) agentCommand() *cobra.Command {
	var listen, secretFile string
	var insecure bool
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "the far end of a measurement: in a guest or on a second host",
		Long: `Waits for 'mpps bench … --agent HOST:PORT' and sends, counts and answers for it.
What a session started ends with it: when the connection is lost, traffic stops.
Serves loopback and private addresses without a secret; anything else needs one.

  mpps agent --listen 10.50.0.2:7878
  mpps agent --listen 0.0.0.0:7878 --secret-file /etc/mpps/secret`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := bench.Secret(secretFile)
			if err != nil {
				return err
			}
			s, err := agent.Listen("", listen, agent.Options{Version: version, Secret: secret, InsecureLab: insecure})
			switch {
			case errors.Is(err, agent.ErrOpen):
				return usage(err, "give --secret-file, or listen on a private address")
			case err != nil:
				return outcome.Failed(err, "is another agent running? --listen takes HOST:PORT")
			}
			name, err := os.Hostname()
			if err != nil {
				return errors.Join(err, s.Close())
			}
			ready := agentReady{s.Addr(), len(secret) > 0}
			err = a.out.Answer(report.Answer{
				Verb: "agent", Host: name, Result: ready,
				Text: func(t *report.Text) { t.Line("listening on %s", ready.Listen) },
			})
			if err != nil {
				return errors.Join(err, s.Close())
			}
			return s.Serve(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:"+agent.Port, "HOST:PORT; port 0 is any")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with a secret that clients must know")
	cmd.Flags().BoolVar(&insecure, "insecure-lab", false, "serve any address without a secret")
	return cmd
}
