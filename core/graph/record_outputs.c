/* SPDX-License-Identifier: MIT */
/*
** What a recording hands out: what the function returned, gradients, and what is held outside.
*/
#include "graph/record.h"

/* Was it there before, and has nothing written to it? */
static bool is_untouched(const rg_recording *r, const rg_tensor *x)
{
  rg_storage *storage = rg_storage_root(x->_storage);
  const stored *s = rg_seen_find(&r->storages, storage);

  return s == NULL ? !rg_recording_owns(r, storage) : s->outside && !s->state;
}

rg_status rg_record_output(const rg_tensor *x, int32_t kind, const char *name)
{
  rg_recording *now = rg_recording_now();
  rg_ir_output output = { .kind = kind };

  RG_TRY(rg_recording_check(x));
  if (kind == RG_OUTPUT_GRADIENT && is_untouched(now, x)) {
    return RG_OK;
  }
  RG_TRY(rg_recording_value(now, x, &output.value));
  RG_TRY(rg_ir_text_add(now->g, name, &output.name));
  int32_t producer = rg_ir_value_at(now->g, output.value)->producer;

  if (kind == RG_OUTPUT_KEPT && producer != RG_IR_NONE) { /* nobody asked for it: who made it */
    output.line = rg_ir_node_at(now->g, producer)->line;
  }
  stored *s = rg_seen_find(&now->storages, rg_storage_root(x->_storage));

  if (s->output == 0) {
    s->output = rg_ir_n_outputs(now->g) + 1;
  }
  output.outside = s->outside;
  output.shares = s->output;
  output.into = kind == RG_OUTPUT_RETURNED && !now->in_place ? NULL : (rg_tensor *)(uintptr_t)x;
  s->placed = s->placed || output.into != NULL;
  return rg_ir_graph_output(now->g, &output);
}

/* -- What is held outside --------------------------------------------------------------------- */

/* Is a storage the recording's own, and held by more than the struct? */
static bool is_kept(const stored *s)
{
  return !s->outside && s->views != NULL && s->storage->bytes > 0 &&
         atomic_load(&s->storage->strong) > 0 && !s->placed;
}

/* An output that shows as much of a storage as any of its views does, the oldest of those. */
static rg_status keep(const stored *s)
{
  const seen *most = s->views;
  rg_tensor *x;

  for (const seen *v = most->next; v != NULL; v = v->next) {
    most = v->at._count >= most->at._count ? v : most;
  }
  RG_TRY(rg_tensor_view_of(s->storage, most->at._dtype, most->at._shape, most->at._stride,
                           most->at._ndim, most->offset, &x));
  rg_status status = rg_record_output(x, RG_OUTPUT_KEPT, NULL);

  rg_tensor_release(x);
  return status;
}

int32_t rg_record_held(void)
{
  rg_recording *now = rg_recording_now();
  int32_t n = 0;

  for (int32_t i = 0; now != NULL && i < rg_seen_buckets(&now->storages); i++) {
    for (const stored *s = now->storages.bucket[i]; s != NULL; s = s->next) {
      n += is_kept(s);
    }
  }
  return n;
}

/* Does a value lie in memory that was there before? */
static bool is_outside(const rg_graph *g, const rg_ir_value *v)
{
  while (v->was != RG_IR_NONE) {
    v = rg_ir_value_at(g, v->was);
  }
  return v->producer == RG_IR_NONE;
}

int32_t rg_record_wrote(void)
{
  rg_recording *now = rg_recording_now();
  int32_t n = 0;

  for (int32_t i = 0; now != NULL && i < rg_ir_n_values(now->g); i++) {
    const rg_ir_value *v = rg_ir_value_at(now->g, i);

    n += !v->removed && v->was != RG_IR_NONE && is_outside(now->g, v);
  }
  return n;
}

rg_status rg_record_kept(void)
{
  rg_recording *now = rg_recording_now();

  if (now == NULL) {
    return rg_fail(RG_ECAPTURE, "graph: nothing is recorded");
  }
  const int32_t n = rg_ir_n_storages(now->g);
  const stored **kept = rg_host_zeroed((size_t)n * sizeof(*kept));
  rg_status status = kept != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory for outputs");

  for (int32_t i = 0; kept != NULL && i < rg_seen_buckets(&now->storages); i++) {
    for (const stored *s = now->storages.bucket[i]; s != NULL; s = s->next) {
      kept[s->number] = is_kept(s) ? s : NULL;
    }
  }
  for (int32_t i = 0; i < n && status == RG_OK; i++) { /* in the order in which they were made */
    status = kept[i] != NULL ? keep(kept[i]) : RG_OK;
  }
  rg_host_free(kept);
  return status;
}
