/* SPDX-License-Identifier: MIT */
/*
** What a graph's nodes and values share: arrays that grow, texts that are kept once, modes, streams
** of random numbers.
*/
#include <string.h>

#include "graph/store.h"

enum { FIRST_ROOM = 16, FIRST_BUCKETS = 64 };

/* -- Arrays ------------------------------------------------------------------------------ */

rg_status rg_ir_no_memory(void)
{
  return rg_fail(RG_ENOMEM, "graph: no memory for it");
}

rg_status rg_ir_reserve(rg_ir_array *array, int32_t more, size_t size)
{
  int64_t want = (int64_t)array->n + more;
  int64_t room = rg_max_i64(rg_max_i64(want, 2 * (int64_t)array->room), FIRST_ROOM);

  if (want <= array->room) {
    return RG_OK;
  }
  if (want > INT32_MAX / 2) {
    return rg_fail(RG_ENOMEM, "graph: it has too many nodes, %lld of a kind", (long long)want);
  }
  void *data = rg_host_alloc((size_t)room * size);

  if (data == NULL) {
    return rg_ir_no_memory();
  }
  if (array->data != NULL) {
    memcpy(data, array->data, (size_t)array->n * size);
  }
  rg_host_free(array->data);
  array->data = data;
  array->room = (int32_t)room;
  return RG_OK;
}

/* -- Texts, modes, streams --------------------------------------------------------------- */

const char *rg_ir_text_of(const rg_graph *g, rg_ir_text text)
{
  return RG_IR_AT(g->text, const char, text);
}

/* Where a text stands in the table, or may be put. */
static int32_t *bucket_of(const rg_graph *g, const char *text)
{
  uint32_t mask = (uint32_t)g->bucket.n - 1;

  for (uint32_t i = rg_text_hash(text);; i++) {
    int32_t *at = RG_IR_AT(g->bucket, int32_t, i & mask);

    if (*at == 0 || strcmp(rg_ir_text_of(g, *at), text) == 0) {
      return at;
    }
  }
}

/* A table of twice the size: it is at most half full. */
static rg_status grow_buckets(rg_graph *g)
{
  rg_ir_array old = g->bucket;
  int32_t n = (int32_t)rg_max_i64(2 * (int64_t)old.n, FIRST_BUCKETS);
  int32_t *data = rg_host_zeroed((size_t)n * sizeof(*data));

  if (data == NULL) {
    return rg_ir_no_memory();
  }
  g->bucket = (rg_ir_array){ data, n, n };
  for (int32_t i = 0; i < old.n; i++) {
    int32_t text = *RG_IR_AT(old, int32_t, i);

    if (text != 0) {
      *bucket_of(g, rg_ir_text_of(g, text)) = text;
    }
  }
  rg_host_free(old.data);
  return RG_OK;
}

rg_status rg_ir_text_add(rg_graph *g, const char *text, rg_ir_text *out)
{
  if (text == NULL || *text == '\0') {
    *out = 0;
    return RG_OK;
  }
  size_t size = strlen(text) + 1;

  if (2 * (g->n_texts + 1) > g->bucket.n) {
    RG_TRY(grow_buckets(g));
  }
  int32_t *at = bucket_of(g, text);

  if (*at == 0) {
    RG_TRY(rg_ir_reserve(&g->text, (int32_t)rg_min_i64((int64_t)size, INT32_MAX), 1));
    memcpy(RG_IR_AT(g->text, char, g->text.n), text, size);
    *at = g->text.n;
    g->text.n += (int32_t)size;
    g->n_texts++;
  }
  *out = *at;
  return RG_OK;
}

rg_status rg_ir_modes_add(rg_graph *g, const rg_graph_modes *modes, int32_t *out)
{
  for (int32_t i = g->modes.n - 1; i >= 0; i--) {
    if (memcmp(RG_IR_AT(g->modes, rg_graph_modes, i), modes, sizeof(*modes)) == 0) {
      *out = i;
      return RG_OK;
    }
  }
  RG_TRY(rg_ir_reserve(&g->modes, 1, sizeof(*modes)));
  RG_IR_PUSH(g->modes, rg_graph_modes, *modes);
  *out = g->modes.n - 1;
  return RG_OK;
}

const rg_graph_modes *rg_ir_modes_of(const rg_graph *g, int32_t modes)
{
  return RG_IR_AT(g->modes, rg_graph_modes, modes);
}

rg_modes rg_ir_run_modes(const rg_graph_modes *modes)
{
  return (rg_modes){ { modes->vendor, modes->autotune, modes->deterministic, modes->tf32 },
                     modes->gemm };
}

bool rg_ir_runs_alike(const rg_graph *g, const rg_ir_node *a, const rg_ir_node *b)
{
  const rg_modes x = rg_ir_run_modes(rg_ir_modes_of(g, a->modes));
  const rg_modes y = rg_ir_run_modes(rg_ir_modes_of(g, b->modes));

  return rg_modes_same(&x, &y);
}

rg_status rg_ir_generator_add(rg_graph *g, rg_generator *generator, int32_t *out)
{
  *out = 0;
  if (generator == NULL || generator == rg_generator_default()) {
    return RG_OK;
  }
  for (int32_t i = 0; i < g->streams.n; i++) {
    if (*RG_IR_AT(g->streams, rg_generator *, i) == generator) {
      *out = i + 1;
      return RG_OK;
    }
  }
  RG_TRY(rg_ir_reserve(&g->streams, 1, sizeof(generator)));
  RG_IR_PUSH(g->streams, rg_generator *, rg_generator_retain(generator));
  *out = g->streams.n;
  return RG_OK;
}

rg_generator *rg_ir_generator_of(const rg_graph *g, int32_t generator)
{
  return generator <= 0 ? NULL : *RG_IR_AT(g->streams, rg_generator *, generator - 1);
}
