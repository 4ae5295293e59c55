package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// CampaignLog is the file to which a campaign's samples are written as they are taken.
type CampaignLog struct {
	Name      string // empty: no file
	Temporary bool   // remove it once the result is saved

	resumed os.FileInfo // of the file that was read; nil: not resumed
	whole   int64       // bytes of whole lines in it
	file    *os.File
}

// NewCampaignLog returns the file for a campaign's samples: the one that the user named, or a temporary one in Runs.
func NewCampaignLog(env *ops.Env, k Keep, named string, began time.Time) *CampaignLog {
	log := &CampaignLog{Name: named}
	if named == "" && k.Runs {
		file := fmt.Sprintf("%s-modes-%d.campaign.jsonl", began.Format("20060102T150405"), os.Getpid())
		log.Name, log.Temporary = filepath.Join(env.Root, Runs, file), true
	}
	return log
}

const otherLog = "--checkpoint names another file; with --keep=false there is none"

// ResumeCampaign reads a campaign's file to continue it. Failed samples are tried again.
func ResumeCampaign(name string) (*measure.ModesCampaign, *CampaignLog, error) {
	const hint = "'mpps bench modes' names its file when it is interrupted"
	f, err := ops.OpenFile(name)
	if err != nil {
		return nil, nil, outcome.Failed(fmt.Errorf("campaign %w", err), hint)
	}
	defer f.Close()
	c, whole, err := measure.DecodeCampaign(f)
	if err != nil {
		return nil, nil, outcome.Failed(fmt.Errorf("campaign %s: %w", name, err), hint)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, outcome.Failed(fmt.Errorf("campaign: %w", err), hint)
	}
	c.Forgive()
	return c, &CampaignLog{Name: name, resumed: info, whole: whole}, nil
}

// open creates the file, or opens a resumed one after its last whole line.
func (l *CampaignLog) open(c *measure.ModesCampaign) (err error) {
	if l.Name == "" {
		return nil
	}
	if l.resumed != nil {
		if l.file, err = ops.Reopen(l.Name, l.resumed); err != nil {
			return outcome.Failed(fmt.Errorf("campaign %w", outcome.FileError(err)), "")
		}
		if err = l.file.Truncate(l.whole); err == nil {
			_, err = l.file.Seek(0, io.SeekEnd)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("campaign %s: %w", l.Name, err), l.close())
		}
		return nil
	}
	if l.Temporary { // in Runs
		err = os.MkdirAll(filepath.Dir(l.Name), 0o755)
	}
	if err == nil {
		l.file, err = ops.Create(l.Name)
	}
	if err != nil {
		return outcome.Failed(fmt.Errorf("campaign %w", outcome.FileError(err)), otherLog)
	}
	if err := errors.Join(measure.EncodeCampaign(l.file, c), l.file.Sync()); err != nil {
		return errors.Join(outcome.Failed(fmt.Errorf("campaign %s: %w", l.Name, err), otherLog), l.close())
	}
	return nil
}

// add writes a sample and syncs the file.
func (l *CampaignLog) add(cell measure.ModeCell) error {
	if l.file == nil {
		return nil
	}
	return errors.Join(measure.EncodeCell(l.file, facts.NonNil(&cell)), l.file.Sync())
}

// close closes the file without removing it.
func (l *CampaignLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
