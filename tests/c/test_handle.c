/* SPDX-License-Identifier: MIT */
/*
** Slots of handles: growing, reaping what died, dropping early, closing.
*/
#include <malloc.h>

#include "base/base.h"
#include "tap.h"
#include "tensor/tensor.h"

/* What Lua does to make a handle: take a slot, note the reference. */
static rg_ref handle(rg_handles *handles)
{
  rg_ref ref;
  int64_t n = 1;

  if (rg_empty(RG_U8, RG_CPU, &n, 1, &ref._t) != RG_OK) {
    tap_bail(rg_error_message());
  }
  ref._slot = handles->_free[--handles->_n_free];
  ref._t->_handles++;
  handles->_tensors[ref._slot] = ref._t;
  return ref;
}

static void test_grow(void)
{
  rg_handles handles = { 0 };
  int64_t before = rg_live_tensors();
  rg_ref ref;

  is_status(rg_handles_grow(&handles, 2), RG_OK, "two slots");
  is_int(handles._n, 2, "are two");
  is_int(handles._n_free, 2, "and free");
  ref = handle(&handles);
  is_int(ref._slot, 1, "the lowest slot is taken first");
  is_status(rg_handles_grow(&handles, 2), RG_EARG, "no more than before is refused");
  for (int64_t i = 1; i <= 2; i++) {
    rg_alloc_fail_at(i);
    is_status(rg_handles_grow(&handles, 4), RG_ENOMEM, "no memory");
    rg_alloc_fail_at(0);
    is_int(handles._n + handles._n_free, 2 + 1, "changes nothing");
  }
  size_t allocated = mallinfo2().uordblks;

  rg_alloc_fail_at(2);
  is_status(rg_handles_grow(&handles, 4096), RG_ENOMEM, "no memory for the second of two");
  rg_alloc_fail_at(0);
  ok(mallinfo2().uordblks < allocated + 4096, "and keeps nothing");
  is_status(rg_handles_grow(&handles, 5), RG_OK, "five slots");
  is_int(handles._n_free, 4, "of which four are free");
  ok(handles._tensors[1] == ref._t, "the reference stays in its slot");
  (void)handle(&handles);
  (void)handle(&handles);
  is_int(rg_live_tensors(), before + 3, "three tensors");
  rg_handles_close(&handles);
  is_int(rg_live_tensors(), before, "closing releases them");
  ok(handles._tensors == NULL && handles._n == 0, "and leaves nothing");
  rg_handles_close(&handles);
}

static void test_reap(void)
{
  rg_handles handles = { 0 };
  int64_t before = rg_live_tensors();
  rg_tensor *held;
  rg_ref a;
  rg_ref b;
  rg_ref c;

  is_status(rg_handles_grow(&handles, 3), RG_OK, "three slots");
  a = handle(&handles);
  b = handle(&handles);
  c = handle(&handles);
  held = rg_tensor_retain(b._t);
  rg_handles_drop(&handles, &c);
  ok(c._t == NULL, "a handle dropped is empty");
  is_int(rg_live_tensors(), before + 2, "its tensor is gone");
  is_int(handles._n_free, 0, "its slot is still its own");
  rg_handles_drop(&handles, &c);
  rg_handles_drop(&handles, NULL);
  is_int(rg_live_tensors(), before + 2, "dropping twice does no harm");

  handles._free[handles._n_free++] = b._slot;
  handles._free[handles._n_free++] = c._slot;
  rg_handles_reap(&handles, 2);
  is_int(rg_live_tensors(), before + 2, "what C holds outlives its handle");
  is_int(held->_handles, 0, "which is not counted any more");
  rg_tensor_release(held);
  is_int(rg_live_tensors(), before + 1, "until C lets go");
  ok(handles._tensors[a._slot] == a._t, "the others are not touched");
  handles._free[handles._n_free++] = a._slot;
  rg_handles_reap(&handles, 1);
  is_int(rg_live_tensors(), before, "all are gone");
  rg_handles_close(&handles);
}

int main(void)
{
  test_grow();
  test_reap();
  return done();
}
