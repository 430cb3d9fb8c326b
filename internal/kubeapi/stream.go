package kubeapi

import (
	"context"
	"io"
	"net/http"
	"time"
)

// maxRefusal bounds what is read of an answer that refuses a stream, in bytes.
const maxRefusal = 64 << 10

// Stream opens an answer that is read as it comes, such as a log that is followed. The
// context ends it, and nothing else does: a server may begin to answer only when there is
// something to say. Errors are as those of [Client.Get], but a busy server is asked once.
// Its caller closes the answer.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.open(ctx, call{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	late := time.AfterFunc(answerTime, func() { resp.Body.Close() })
	defer late.Stop()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as much of it as there is
	return nil, refusal(path, resp, answer)
}
