package hardware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Container is the stand-in driver container: what the upstream one does when it
// is run as `nvidia-driver init`, with the simulated hardware below it.
type Container struct {
	// Payload is the driver's files in the container's own image.
	Payload string
	// Root is where the host, and every operand, looks for a containerised driver.
	Root string
	// Validations is the directory of the driver's own status files.
	Validations string
	// LoadModule loads the module from Root; UnloadModule takes it away and fails
	// with ErrInUse while somebody uses it.
	LoadModule   func(ctx context.Context) error
	UnloadModule func(ctx context.Context) error
	Out          io.Writer
}

// Init installs the driver root, loads the module and waits for the end of ctx.
// Then it unloads when nobody uses the driver, and leaves a working driver else.
func (c Container) Init(ctx context.Context) error {
	status := filepath.Join(c.Validations, ".driver-daemons-status")
	if err := os.MkdirAll(c.Validations, 0o755); err != nil {
		return fmt.Errorf("making the directory of status files: %w", err)
	}
	if err := os.WriteFile(status, []byte("NotReady\n"), 0o644); err != nil {
		return fmt.Errorf("writing the driver's status: %w", err)
	}
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return fmt.Errorf("making the driver root: %w", err)
	}
	fmt.Fprintf(c.Out, "Installing the driver's files in %s\n", c.Root)
	if out, err := exec.CommandContext(ctx, "cp", "-a", c.Payload+"/.", c.Root).CombinedOutput(); err != nil {
		return fmt.Errorf("installing the driver's files: %w: %s", err, out)
	}
	fmt.Fprintln(c.Out, "Loading the kernel module")
	if err := c.LoadModule(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(status, []byte("Ready\n"), 0o644); err != nil {
		return fmt.Errorf("writing the driver's status: %w", err)
	}
	fmt.Fprintln(c.Out, "Done, now waiting for signal")
	<-ctx.Done()
	return c.end(context.WithoutCancel(ctx), status)
}

// end is what happens when the container is told to stop.
func (c Container) end(ctx context.Context, status string) error {
	if err := c.UnloadModule(ctx); errors.Is(err, ErrInUse) {
		fmt.Fprintf(c.Out, "The driver stays: %v\n", err)
		return nil
	} else if err != nil {
		return err
	}
	entries, err := os.ReadDir(c.Root)
	if err != nil {
		return fmt.Errorf("reading the driver root: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(c.Root, e.Name())); err != nil {
			return fmt.Errorf("removing the driver root: %w", err)
		}
	}
	return errors.Join(os.Remove(status), os.Remove(c.Root))
}
