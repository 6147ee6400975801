// Package gpunode reads and writes the GPUNode of one node, by server-side apply
// on its status under one field manager. It is what node agents with a token have
// of the cluster: no cache, no other kind, no other node's object.
package gpunode

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gpu-operator/api/v1alpha1"
)

const kind = "GPUNode"

// Client is bound to one GPUNode and one field manager.
type Client struct {
	api     dynamic.ResourceInterface
	name    string
	manager string
}

// New returns a client for the GPUNode named as its node; manager owns the fields
// that it applies.
func New(cfg *rest.Config, node, manager string) (*Client, error) {
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building API client: %w", err)
	}
	return &Client{api: d.Resource(v1alpha1.GroupVersion().WithResource("gpunodes")), name: node, manager: manager}, nil
}

// Get returns the live object; apierrors.IsNotFound tells that there is none yet.
func (c *Client) Get(ctx context.Context) (v1alpha1.GPUNode, error) {
	var out v1alpha1.GPUNode
	u, err := c.api.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return out, fmt.Errorf("reading GPUNode %q: %w", c.name, err)
	}
	return out, decode(u, &out)
}

// ApplyStatus makes st all that this manager says in the status: a field that is
// absent from st and was applied before is removed, fields of other managers stay.
// It creates no object; a missing one is reported by apierrors.IsNotFound.
func (c *Client) ApplyStatus(ctx context.Context, st v1alpha1.GPUNodeStatus) error {
	body, err := c.body(st)
	if err != nil {
		return err
	}
	force := true
	_, err = c.api.Patch(ctx, c.name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: c.manager, Force: &force}, "status")
	if err != nil {
		return fmt.Errorf("applying status of GPUNode %q: %w", c.name, err)
	}
	return nil
}

// body renders the apply configuration.
func (c *Client) body(st v1alpha1.GPUNodeStatus) ([]byte, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&st)
	if err != nil {
		return nil, fmt.Errorf("encoding status of GPUNode %q: %w", c.name, err)
	}
	if st.PCIScanned {
		// A zero that was counted is worth saying; an omitted one reads as unknown.
		status["gpuCount"] = int64(st.GPUCount)
	}
	return json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(),
		"kind":       kind,
		"metadata":   map[string]any{"name": c.name},
		"status":     status,
	})
}

// WaitGone blocks until the object, read at resource version since, is deleted
// (nil). It costs one watch, which is renewed when the API server ends it. An error
// means that the deletion could have been missed: the object is to be read again.
// apierrors.IsForbidden tells that this client may not watch.
func (c *Client) WaitGone(ctx context.Context, since string) error {
	for {
		gone, seen, err := c.watchOnce(ctx, since)
		if gone || err != nil {
			return err
		}
		since = seen
	}
}

// watchOnce watches until the object is deleted or the API server ends the watch;
// it returns the resource version up to which nothing was missed.
func (c *Client) watchOnce(ctx context.Context, since string) (gone bool, seen string, err error) {
	w, err := c.api.Watch(ctx, metav1.ListOptions{
		FieldSelector:       fields.OneTermEqualSelector(metav1.ObjectNameField, c.name).String(),
		ResourceVersion:     since,
		AllowWatchBookmarks: true,
	})
	if err != nil {
		return false, since, fmt.Errorf("watching GPUNode %q: %w", c.name, err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, since, ctx.Err()
		case e, ok := <-w.ResultChan():
			switch {
			case !ok:
				return false, since, nil
			case e.Type == watch.Deleted:
				return true, since, nil
			case e.Type == watch.Error:
				return false, since, fmt.Errorf("watching GPUNode %q: %w", c.name, apierrors.FromObject(e.Object))
			}
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				since = u.GetResourceVersion()
			}
		}
	}
}

// decode turns an untyped object into a typed one.
func decode(u *unstructured.Unstructured, out *v1alpha1.GPUNode) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return fmt.Errorf("decoding GPUNode %q: %w", u.GetName(), err)
	}
	return nil
}
