package main

import (
	"io"
	"net/http"
	"os"
	"slices"

	"stave/internal/model"
)

const (
	maxImageBytes = 5 << 20
	maxImages     = 20
)

// imageTypes are those every provider takes.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// readImages reads pictures. What they are is told by what is in them, not by
// their names.
func readImages(files []string) ([]model.Image, error) {
	if len(files) > maxImages {
		return nil, badInput("--image: %d pictures are more than the %d a message may have", len(files), maxImages)
	}
	var images []model.Image
	for _, name := range files {
		b, err := readImage(name)
		if err != nil {
			return nil, err
		}
		kind := http.DetectContentType(b)
		if !slices.Contains(imageTypes, kind) {
			return nil, badInput("--image %s is no png, jpeg, gif or webp picture", name)
		}
		images = append(images, model.Image{MediaType: kind, Data: b})
	}
	return images, nil
}

func readImage(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, badInput("--image %s: %w", name, cause(err))
	}
	if !info.Mode().IsRegular() { // one that is none may never end
		return nil, badInput("--image %s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, badInput("--image %s: %w", name, cause(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxImageBytes+1))
	if err != nil {
		return nil, badInput("--image %s: %w", name, cause(err))
	}
	if len(b) > maxImageBytes {
		return nil, badInput("--image %s has more than the %d MiB a picture may have", name, maxImageBytes>>20)
	}
	return b, nil
}

// canSee refuses pictures for a model that is known not to take any.
func (a *app) canSee(name string, images []model.Image) error {
	if len(images) > 0 && a.models.info(name).NoImages {
		return badInput("--image: %s cannot look at pictures; choose a model that can with --model", name)
	}
	return nil
}
