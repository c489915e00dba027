/* SPDX-License-Identifier: MIT */
/*
** Elementwise fusion: elementwise functions of one shape become one fused node (op/fused.h), so
** that what goes from one to the next does not cross memory.
**
** Nodes are gone through in their order; those that may be links gather in one chain.  The fused
** node stands where its last link stood, so all others move down: a chain ends before a node that
** reads what it made or writes what it touches.  Behind a node that is no view it goes on only
** where its next link reads it, and where no more memory is kept alive for it than it spares.
**
** A result is stored where somebody else reads it, where it is written over what was there before,
** and where a link that is not the next one reads it.  What is written in place several times is
** stored once; where a link reads what another one writes over, in memory of the chain's own
** besides.  In a chain all links are done for some elements before the next elements are begun:
** that is the same as one node after the other as long as memory that is written is met at the same
** element by all who use it, so a storage that is written is seen through one view only.
*/
#include <string.h>

#include "graph/pass/fuse.h"
#include "tensor/dtype.h"

/* A link that reads nothing of the chain joins it while the chain's inputs are no larger than so
** many results: they, and what is made of them, are there at one time. */
enum { APART = 4 };

/* -- Which nodes ----------------------------------------------------------------------------- */

static bool computes(const rg_ir_value *v)
{
  return rg_dtype_is_float(v->meta.dtype) && (v->device == RG_CPU || v->meta.dtype != RG_F64);
}

static bool is_half(int32_t dtype)
{
  return dtype == RG_F16 || dtype == RG_BF16;
}

/* May an input of a link of result y be this? */
static bool fits_input(const rg_fusing *f, int32_t id, int32_t input, const rg_ir_value *y)
{
  const rg_ir_value *x = rg_chain_value(f, input);
  bool wide = y->meta.dtype == RG_F64;
  rg_tensor stand_in;
  int64_t div;
  int64_t mod;

  if (!computes(x) || (x->meta.dtype == RG_F64) != wide ||
      (!rg_chain_is_cast(id) && x->meta.dtype != y->meta.dtype)) {
    return false;
  }
  /* a copy of a half type keeps the bits of a signalling nan, and to compute in f32 does not */
  if (rg_chain_is_cast(id) && is_half(x->meta.dtype) && x->meta.dtype == y->meta.dtype &&
      rg_chain_link(f, input, f->c.n) == RG_IR_NONE) {
    return false;
  }
  rg_layout_stand_in(&f->layout, input, &stand_in);
  return rg_fused_place(&stand_in, y->meta.shape, y->meta.ndim, &div, &mod);
}

/* Is a node an elementwise function that a link can be? */
static bool fits(const rg_fusing *f, const rg_ir_node *node)
{
  int32_t id = node->op->id;
  int32_t n = rg_chain_inputs(f->g, node);

  if ((rg_fused_kind(id) == RG_LINK_NONE && !rg_chain_is_cast(id)) || node->n_out != 1 ||
      node->n_results != 1 || node->compound || n == 0 ||
      rg_ir_outputs(f->g, node)[0] == RG_IR_NONE) {
    return false;
  }
  const rg_ir_value *y = rg_chain_value(f, rg_ir_outputs(f->g, node)[0]);

  if (!computes(y) || rg_meta_count(&y->meta) == 0 ||
      (y->was != RG_IR_NONE && !rg_layout_is_contiguous(&f->layout, y->was))) {
    return false;
  }
  for (int32_t i = 0; i < n; i++) {
    int32_t input = rg_ir_inputs(f->g, node)[i];

    if (input == RG_IR_NONE || !fits_input(f, id, input, y)) {
      return false;
    }
  }
  return true;
}

/* -- Memory ---------------------------------------------------------------------------------- */

/* May the chain, with a node added, see a value's storage?  It may where it does not write it, or
** sees it through this view already. */
static bool sees_one_view(const rg_fusing *f, int32_t value, bool writes)
{
  int32_t storage = rg_chain_value(f, value)->storage;
  bool written = f->writes[storage] == f->number;
  bool met = written || f->reads[storage] == f->number;

  return !met || (!written && !writes) || f->through[storage] == f->first[value];
}

static void meet(rg_fusing *f, int32_t value, bool writes)
{
  int32_t storage = rg_chain_value(f, value)->storage;
  bool met = f->reads[storage] == f->number || f->writes[storage] == f->number;

  /* two views of what is only read: none of them may be written through */
  f->through[storage] =
      !met || f->through[storage] == f->first[value] ? f->first[value] : RG_IR_NONE;
  (writes ? f->writes : f->reads)[storage] = f->number;
}

/* Does the node see one storage through two views, and write it? */
static bool crosses_itself(const rg_fusing *f, const rg_ir_node *node)
{
  const rg_ir_value *y = rg_chain_value(f, rg_ir_outputs(f->g, node)[0]);

  for (int32_t i = 0; i < node->n_in && y->was != RG_IR_NONE; i++) {
    int32_t in = rg_ir_inputs(f->g, node)[i];

    if (in != RG_IR_NONE && rg_chain_value(f, in)->storage == y->storage &&
        f->first[in] != f->first[y->was]) {
      return true;
    }
  }
  return false;
}

/* Bytes of the inputs of a node that no link makes. */
static int64_t kept_by(const rg_fusing *f, const rg_ir_node *node)
{
  int64_t bytes = 0;

  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t in = rg_ir_inputs(f->g, node)[i];

    if (in != RG_IR_NONE && rg_chain_link(f, in, f->c.n) == RG_IR_NONE) {
      bytes += rg_meta_bytes(&rg_chain_value(f, in)->meta);
    }
  }
  return bytes;
}

static bool reads_chain(const rg_fusing *f, const rg_ir_node *node)
{
  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t in = rg_ir_inputs(f->g, node)[i];

    if (in != RG_IR_NONE && rg_chain_link(f, in, f->c.n) != RG_IR_NONE) {
      return true;
    }
  }
  return false;
}

/* May a node that fits be the chain's next link? */
static bool joins(const rg_fusing *f, const rg_ir_node *node)
{
  const rg_ir_node *first = rg_ir_node_at(f->g, f->c.node[0]);
  const rg_ir_value *y = rg_chain_value(f, rg_ir_outputs(f->g, node)[0]);
  const rg_ir_value *y0 = rg_chain_value(f, rg_chain_result(f, f->c.node[0]));

  if (f->c.n == RG_FUSED_LINKS || node->parent != first->parent ||
      node->recomputed != first->recomputed || node->derived != first->derived ||
      !rg_ir_runs_alike(f->g, node, first) || y->device != y0->device ||
      y->meta.ndim != y0->meta.ndim || (y->meta.dtype == RG_F64) != (y0->meta.dtype == RG_F64) ||
      memcmp(y->meta.shape, y0->meta.shape, (size_t)y->meta.ndim * sizeof(int64_t)) != 0 ||
      crosses_itself(f, node)) {
    return false;
  }
  if (f->c.gap > 0 &&
      (node->recomputed || !reads_chain(f, node) || f->c.kept > rg_meta_bytes(&y->meta))) {
    return false;
  }
  if (!reads_chain(f, node) && f->c.kept > APART * rg_meta_bytes(&y->meta)) {
    return false;
  }
  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t in = rg_ir_inputs(f->g, node)[i];

    if (in != RG_IR_NONE && !sees_one_view(f, in, false)) {
      return false;
    }
  }
  return y->was == RG_IR_NONE || sees_one_view(f, y->was, true);
}

/* Does a node that is no link read what the chain made, or write what it touches? */
static bool ends(const rg_fusing *f, const rg_ir_node *node)
{
  for (int32_t i = 0; i < node->n_in; i++) {
    int32_t in = rg_ir_inputs(f->g, node)[i];

    if (in != RG_IR_NONE && f->writes[rg_chain_value(f, in)->storage] == f->number) {
      return true;
    }
  }
  for (int32_t i = 0; i < node->n_out && !node->compound; i++) {
    int32_t out = rg_ir_outputs(f->g, node)[i];

    if (out != RG_IR_NONE && rg_chain_value(f, out)->was != RG_IR_NONE &&
        (f->reads[rg_chain_value(f, out)->storage] == f->number ||
         f->writes[rg_chain_value(f, out)->storage] == f->number)) {
      return true;
    }
  }
  return false;
}

/* -- All of them ------------------------------------------------------------------------------- */

static void add_link(rg_fusing *f, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(f->g, number);
  int32_t y = rg_ir_outputs(f->g, node)[0];

  f->c.kept += kept_by(f, node);
  for (int32_t i = 0; i < node->n_in; i++) {
    if (rg_ir_inputs(f->g, node)[i] != RG_IR_NONE) {
      meet(f, rg_ir_inputs(f->g, node)[i], false);
    }
  }
  meet(f, y, true);
  f->link[y] = f->number * RG_FUSED_LINKS + f->c.n;
  f->c.node[f->c.n++] = number;
  f->c.gap = 0;
}

static void begin(rg_fusing *f)
{
  f->c = (rg_chain){ .n = 0 };
  f->number++;
}

/* The chain is complete.  What it has no room for begins the next one. */
static rg_status end(rg_fusing *f)
{
  while (f->c.n > 1) {
    const rg_chain all = f->c;
    int32_t n;

    RG_TRY(rg_chain_put(f, &n));
    begin(f);
    for (int32_t i = n; i < all.n; i++) {
      add_link(f, all.node[i]);
    }
  }
  begin(f);
  return RG_OK;
}

static rg_status visit(rg_fusing *f, int32_t number)
{
  const rg_ir_node *node = rg_ir_node_at(f->g, number);

  if (fits(f, node)) {
    if (f->c.n > 0 && !joins(f, node)) {
      RG_TRY(end(f));
      node = rg_ir_node_at(f->g, number); /* nodes may have moved */
    }
    if (fits(f, node) && !crosses_itself(f, node)) {
      add_link(f, number);
    }
    return RG_OK;
  }
  if (f->c.n > 0 && ends(f, node)) {
    return end(f);
  }
  f->c.gap += node->op->view == NULL && !node->unwritten && !node->compound;
  return RG_OK;
}

static void find_firsts(rg_fusing *f, const rg_ir_node *node)
{
  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(f->g, node)[i];

    if (value != RG_IR_NONE && !node->compound && rg_chain_value(f, value)->was != RG_IR_NONE) {
      f->first[value] = f->first[rg_chain_value(f, value)->was];
    }
  }
}

static rg_status visit_all(rg_fusing *f, const int32_t *order, int32_t n)
{
  for (int32_t i = 0; i < rg_ir_n_values(f->g); i++) {
    f->first[i] = i;
  }
  begin(f);
  for (int32_t i = 0; i < n; i++) {
    find_firsts(f, rg_ir_node_at(f->g, order[i]));
    RG_TRY(visit(f, order[i]));
  }
  return end(f);
}

static rg_status no_memory(void)
{
  return rg_fail(RG_ENOMEM, "graph: no memory to fuse elementwise functions");
}

rg_status rg_pass_fuse(rg_graph *g)
{
  const int32_t *order;
  int32_t n;

  RG_TRY(rg_ir_order(g, &order, NULL, &n));
  /* what is made is one node in the place of two or more, and as many values */
  const size_t n_nodes = 2 * (size_t)rg_ir_n_nodes(g);
  const size_t n_values = 2 * (size_t)rg_ir_n_values(g);
  const size_t n_storages = (size_t)rg_ir_n_storages(g) + n_values;
  rg_fusing f = { .g = g };
  rg_status status;

  f.reads = rg_host_zeroed(n_storages * sizeof(int32_t));
  f.writes = rg_host_zeroed(n_storages * sizeof(int32_t));
  f.through = rg_host_zeroed(n_storages * sizeof(int32_t));
  f.first = rg_host_zeroed(n_values * sizeof(int32_t));
  f.link = rg_host_zeroed(n_values * sizeof(int32_t));
  f.gone = rg_host_zeroed(n_nodes);
  status = f.reads != NULL && f.writes != NULL && f.through != NULL && f.first != NULL &&
                   f.link != NULL && f.gone != NULL
               ? rg_layouts_new(&f.layout, g)
               : no_memory();
  status = status == RG_OK ? visit_all(&f, order, n) : status;
  status = status == RG_OK ? rg_ir_remove_all(g, f.gone) : status;
  status = status == RG_OK ? rg_ir_number_versions(g) : status;
  rg_layouts_end(&f.layout);
  rg_host_free(f.reads);
  rg_host_free(f.writes);
  rg_host_free(f.through);
  rg_host_free(f.first);
  rg_host_free(f.link);
  rg_host_free(f.gone);
  return status;
}
