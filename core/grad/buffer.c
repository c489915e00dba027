/* SPDX-License-Identifier: MIT */
/*
** Buffers of gradients: memory that the caller has set aside for the gradient of a leaf, a range of
** what is sent to other processes for example.  A backward pass makes the gradient there: the call
** whose result it is writes it into the buffer, or the first thing that arrives is copied there.
** What adds up later is added in place, as to any gradient.
**
** A buffer has a storage of its own over the caller's memory, so that versions, writes and saved
** tensors of one gradient are not those of its neighbours.
*/
#include "grad/node.h"
#include "op/op.h"
#include "tensor/scope.h"

/* -- Memory of the caller's as a tensor by itself ---------------------------------------------- */

typedef struct range_source {
  rg_source source;
  rg_tensor *memory; /* held */
} range_source;

/* The memory is there from the start. */
static rg_status range_fill(rg_source *source, rg_storage *storage)
{
  (void)source;
  (void)storage;
  return RG_OK;
}

static void range_release(rg_source *source)
{
  range_source *self = (range_source *)source;

  rg_tensor_release(self->memory);
  rg_host_free(self);
}

/* In the shape of x where that is all of its storage in order, as a gradient that is kept as it
** comes is; else one behind the other. */
static rg_status range_of(rg_tensor *memory, const rg_tensor *x, rg_tensor **out)
{
  range_source *self = rg_host_zeroed(sizeof(*self));
  bool whole = rg_is_contiguous(x) && rg_tensor_bytes(x) == x->_storage->bytes;
  const int64_t *shape = whole ? x->_shape : &memory->_count;

  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "grad_buffer: no memory for what is known of it");
  }
  self->source = (rg_source){ .fill = range_fill, .release = range_release, .owns = true };
  self->memory = rg_tensor_retain(memory);
  return rg_tensor_from(&self->source, memory->_data, memory->_dtype, shape, whole ? x->_ndim : 1,
                        out);
}

/* -- Setting ----------------------------------------------------------------------------------- */

static rg_status check_buffer(const track *t, const rg_tensor *x, const rg_tensor *memory)
{
  char a[RG_TENSOR_TEXT];
  char b[RG_TENSOR_TEXT];

  RG_TRY(rg_tensor_check(memory, "grad_buffer"));
  if (memory->_device != RG_CPU || x->_device != RG_CPU) {
    return rg_fail(RG_EDEVICE, "grad_buffer: gradients on the CPU have buffers, not those of %s",
                   rg_tensor_text(x, a, sizeof(a)));
  }
  if (!rg_is_contiguous(memory) || memory->_dtype != x->_dtype ||
      rg_tensor_bytes(memory) != rg_window_bytes(&t->window, rg_storage_root(x->_storage)->bytes)) {
    return rg_fail(RG_EARG, "grad_buffer: %s has no gradient like %s",
                   rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(memory, b, sizeof(b)));
  }
  return RG_OK;
}

rg_status rg_grad_set_buffer(rg_tensor *x, rg_tensor *memory)
{
  rg_tensor *buffer = NULL;
  char text[RG_TENSOR_TEXT];

  RG_TRY(rg_tensor_check(x, "grad_buffer"));
  track *t = (track *)x->_storage->tracking;

  if (!rg_tensor_tracked(x) || !t->leaf) {
    return rg_fail(RG_EARG, "grad_buffer: no gradient is accumulated for %s",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  if (memory != NULL) {
    RG_TRY(check_buffer(t, x, memory));
    if (t->buffer != NULL && t->buffer->_data == memory->_data) {
      return RG_OK;
    }
    RG_TRY(range_of(memory, x, &buffer));
  }
  rg_tensor_release(t->buffer);
  t->buffer = buffer;
  return RG_OK;
}

static rg_status track_with_buffer(const rg_tensor *x, track **out)
{
  char text[RG_TENSOR_TEXT];

  RG_TRY(rg_tensor_check(x, "grad_buffer"));
  *out = (track *)x->_storage->tracking;
  if (*out == NULL || (*out)->buffer == NULL) {
    return rg_fail(RG_EARG, "grad_buffer: the gradient of %s has none",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  return RG_OK;
}

rg_status rg_grad_into_buffer(rg_tensor *x, int32_t *had)
{
  track *t;

  RG_TRY(track_with_buffer(x, &t));
  *had = t->grad != NULL;
  if (t->grad == NULL) {
    return rg_fill_(t->buffer, 0);
  }
  if (rg_tensor_bytes(t->grad) != rg_tensor_bytes(t->buffer)) {
    return rg_fail(RG_EARG, "grad_buffer: a gradient of another part of the tensor is there");
  }
  if (!rg_tensor_same_storage(t->grad, t->buffer)) {
    RG_TRY(rg_leaf_copy(t->buffer, t->grad));
    t->copied += rg_tensor_bytes(t->buffer);
    rg_tensor_release(t->grad);
    t->grad = rg_tensor_retain(t->buffer);
    rg_grad_changed();
  }
  return RG_OK;
}

rg_status rg_grad_from_buffer(rg_tensor *x)
{
  track *t;

  RG_TRY(track_with_buffer(x, &t));
  if (t->grad == NULL || !rg_tensor_same_storage(t->grad, t->buffer)) {
    rg_tensor_release(t->grad);
    t->grad = rg_tensor_retain(t->buffer);
    rg_grad_changed();
  }
  rg_storage_wrote(t->buffer->_storage); /* by whoever has the memory */
  return RG_OK;
}

int64_t rg_grad_copied(const rg_tensor *x)
{
  const track *t = x != NULL && x->_storage != NULL ? (const track *)x->_storage->tracking : NULL;

  return t != NULL ? t->copied : 0;
}

/* -- In a pass --------------------------------------------------------------------------------- */

/* Do passes of this thread make gradients in buffers now? */
static _Thread_local bool in_use;

bool rg_buffers_use(bool on)
{
  bool before = in_use;

  in_use = on;
  return before;
}

/* Does somebody keep the gradient that the buffer holds, to give it back to the leaf later? */
static bool is_kept(const rg_tensor *buffer)
{
  int64_t listed = rg_scope_place(buffer) > 0 ? 1 : 0;

  return __atomic_load_n(&buffer->_refs, __ATOMIC_ACQUIRE) > 1 + listed;
}

rg_tensor *rg_buffer_free(const place *p)
{
  const track *t = p->track;

  /* a plan writes where it was captured, and a tensor that a call has saved is read again */
  if (!in_use || t == NULL || t->buffer == NULL || t->flow != NULL || t->grad != NULL ||
      rg_capture_active != NULL || rg_graph_recorder != NULL || t->buffer->_dtype != p->at._dtype ||
      t->buffer->_device != p->at._device ||
      rg_tensor_bytes(t->buffer) != rg_window_bytes(&t->window, p->storage_bytes) ||
      atomic_load(&t->buffer->_storage->saved) != 0 || is_kept(t->buffer)) {
    return NULL;
  }
  return t->buffer;
}
