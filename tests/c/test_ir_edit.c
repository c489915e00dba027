/* SPDX-License-Identifier: MIT */
/*
** Graphs that are edited at random, beside a list that is edited the same; writes that are taken
** away one after the other.
*/
#include "graph/store.h"
#include "ir.h"
#include "op/act.h"
#include "op/product.h"
#include "op/view.h"

extern const rg_op rg_op_view;

/* -- Order ------------------------------------------------------------------------------------ */

enum { MOST = 200, EDITS = 60, GRAPHS = 60 };

/* Nodes in the order that they should have. */
typedef struct model {
  rg_graph *g;
  int32_t x;
  int32_t node[MOST];
  int32_t n;
  uint32_t state;
} model;

static int32_t below(model *m, int32_t n)
{
  m->state = m->state * 1664525u + 1013904223u;
  return (int32_t)((m->state >> 8) % (uint32_t)n);
}

/* Where the body of the i-th ends. */
static int32_t end_of(const model *m, int32_t i)
{
  int32_t at = i + 1;

  while (at < m->n && rg_ir_is_within(m->g, m->node[at], m->node[i])) {
    at++;
  }
  return at;
}

static void begin_at(model *m, uint32_t seed)
{
  *m = (model){ .state = seed };
  must(rg_ir_new(&m->g));
  m->x = outside(m->g, RG_VALUE_INPUT, "x", 2, 3);
  for (int32_t i = 0; i < 12; i++) {
    if (i == 3 || i == 4 || i == 8) { /* a compound in a compound, and another one */
      must(rg_ir_node_add(m->g, &rg_op_softmax, &m->x, 1, &(rg_softmax_args){ .axis = 1 },
                          &m->node[m->n]));
      must(rg_ir_begin(m->g, m->node[m->n]));
    } else {
      m->node[m->n] = producer(m->g, unary(m->g, &rg_op_relu, m->x));
    }
    m->n++;
    if (i == 6 || i == 7 || i == 10) {
      rg_ir_end(m->g);
    }
  }
}

static void insert(model *m)
{
  int32_t at = below(m, m->n);
  bool after = below(m, 2) == 1;
  int32_t to = after ? end_of(m, at) : at;
  int32_t node;

  must(rg_graph_insert(m->g, m->node[at], after, RG_OP_NEG, &m->x, 1, NULL, &node));
  memmove(&m->node[to + 1], &m->node[to], (size_t)(m->n - to) * sizeof(m->node[0]));
  m->node[to] = node;
  m->n++;
}

static void take(model *m)
{
  int32_t at = below(m, m->n);
  int32_t end = end_of(m, at);

  if (m->n - (end - at) < 2) {
    return;
  }
  must(rg_ir_remove(m->g, m->node[at]));
  memmove(&m->node[at], &m->node[end], (size_t)(m->n - end) * sizeof(m->node[0]));
  m->n -= end - at;
}

static int32_t wrong_at(const model *m)
{
  const int32_t *order;
  const int32_t *body;
  int32_t n;

  must(rg_ir_order(m->g, &order, &body, &n));
  if (n != m->n) {
    return 0;
  }
  for (int32_t i = 0; i < n; i++) {
    if (order[i] != m->node[i] || body[i] != end_of(m, i) - i - 1 ||
        rg_ir_node_at(m->g, order[i])->position != i) {
      return i;
    }
  }
  return -1;
}

static void test_random(void)
{
  for (uint32_t seed = 1; seed <= GRAPHS; seed++) {
    model m;
    int32_t wrong = -1;

    begin_at(&m, seed);
    for (int32_t i = 0; i < EDITS && wrong < 0; i++) {
      if (below(&m, 4) > 0) {
        insert(&m);
      } else {
        take(&m);
      }
      wrong = below(&m, (int32_t)(seed % 7) + 1) == 0 ? wrong_at(&m) : -1;
    }
    is_int(wrong < 0 ? wrong_at(&m) : wrong, -1, "in the order of the list");
    is_status(rg_graph_check(m.g), RG_OK, "a whole graph");
    rg_graph_release(m.g);
  }
}

/* -- Writes ----------------------------------------------------------------------------------- */

/* Three writes over one value: the last goes first, and then the one before it. */
static void test_writes(void)
{
  for (int32_t first = 0; first < 3; first++) {
    rg_graph *g;
    int32_t node[3];

    must(rg_ir_new(&g));
    int32_t y = unary(g, &rg_op_gelu, outside(g, RG_VALUE_INPUT, "x", 2, 3));
    const int32_t begun = y;

    for (int32_t i = 0; i < 3; i++) {
      y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
      node[i] = producer(g, y);
    }
    is_status(rg_ir_remove(g, node[first]), first == 2 ? RG_OK : RG_EARG, "the last alone");
    if (first == 2) {
      is_status(rg_ir_remove(g, node[0]), RG_EARG, "not the first behind it");
      is_status(rg_ir_remove(g, node[1]), RG_OK, "but the second");
      y = node_of(g, &rg_op_relu,
                  (const int32_t[]){ rg_ir_outputs(g, rg_ir_node_at(g, node[0]))[0] }, 1, NULL,
                  rg_ir_outputs(g, rg_ir_node_at(g, node[0]))[0]);
      is_int(rg_ir_value_at(g, y)->version, 2, "another one takes its place");
      is_status(rg_graph_check(g), RG_OK, "and the graph is whole");
      is_status(rg_ir_remove(g, node[0]), RG_EARG, "which the first stands in front of");
      is_status(rg_ir_remove(g, producer(g, y)), RG_OK, "until it goes");
      is_status(rg_ir_remove(g, node[0]), RG_OK, "so that all can go");
      is_status(rg_ir_remove(g, producer(g, begun)), RG_OK, "with what they wrote to");
    }
    is_status(rg_graph_check(g), RG_OK, "a whole graph");
    rg_graph_release(g);
  }
}

/* What is written over one value is written over the one in its place. */
static void test_moved(void)
{
  rg_graph *g;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  int32_t old = unary(g, &rg_op_gelu, x), by = unary(g, &rg_op_relu, x);
  int32_t over = node_of(g, &rg_op_relu, &old, 1, NULL, old);

  is_int(rg_ir_value_at(g, over)->storage, rg_ir_value_at(g, old)->storage, "written over it");
  is_status(rg_ir_replace(g, old, by), RG_OK, "another one is put in its place");
  is_int(rg_ir_value_at(g, over)->was, by, "which is written over now");
  is_int(rg_ir_value_at(g, over)->storage, rg_ir_value_at(g, by)->storage, "in its storage");
  is_int(rg_ir_value_at(g, over)->version, rg_ir_value_at(g, by)->version + 1, "as the next");
  is_status(rg_graph_check(g), RG_OK, "and the graph is whole");
  is_status(rg_ir_remove(g, producer(g, old)), RG_OK, "without what was there");
  is_status(rg_graph_check(g), RG_OK, "too");
  rg_graph_release(g);
}

/* A body in which a value is written twice goes at once. */
static void test_body(void)
{
  rg_graph *g;
  int32_t node;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &node));
  must(rg_ir_begin(g, node));
  int32_t y = unary(g, &rg_op_gelu, x);

  y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  y = node_of(g, &rg_op_neg, &y, 1, NULL, y);
  rg_ir_end(g);
  must(rg_ir_output_share(g, node, y));
  rg_ir_results_end(g, node);
  is_int(rg_graph_order(g, &(int32_t){ 0 }) != NULL, 1, "in their order");
  is_status(rg_ir_remove(g, node), RG_OK, "a compound with its writes");
  int32_t n;

  (void)rg_graph_order(g, &n);
  is_int(n, 0, "nothing is left");
  is_int(rg_ir_value_at(g, x)->n_uses, 0, "and nobody reads x");
  is_status(rg_graph_check(g), RG_OK, "a whole graph");
  rg_graph_release(g);
}

/* Readers that come and go: each is told where it stands. */
static void test_readers(void)
{
  model m = { .state = 5 };
  rg_graph *g;
  int32_t value[6];
  int32_t node[40];

  must(rg_ir_new(&g));
  for (int32_t i = 0; i < 6; i++) {
    value[i] = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  }
  for (int32_t i = 0; i < 40; i++) {
    node[i] = producer(g, added(g, value[below(&m, 6)], value[below(&m, 6)]));
  }
  for (int32_t i = 0; i < 400; i++) {
    int32_t at = below(&m, 40);

    if (below(&m, 8) == 0) {
      must(rg_ir_replace(g, value[below(&m, 6)], value[below(&m, 6)]));
    } else {
      must(rg_ir_set_input(g, node[at], below(&m, 2), value[below(&m, 6)]));
    }
  }
  int32_t wrong = 0;
  int32_t uses = 0;

  for (int32_t i = 0; i < 6; i++) {
    const rg_ir_value *v = rg_ir_value_at(g, value[i]);

    uses += v->n_uses;
    for (int32_t k = 0; k < v->n_uses; k++) {
      const rg_ir_use use = rg_ir_uses(g, v)[k];
      const rg_ir_node *reader = rg_ir_node_at(g, use.node);

      wrong += rg_ir_inputs(g, reader)[use.slot] != value[i] ||
               *RG_IR_AT(g->back, int32_t, reader->in + use.slot) != k;
    }
  }
  is_int(uses, 80, "two inputs of each are read");
  is_int(wrong, 0, "by those who are told to");
  is_status(rg_graph_check(g), RG_OK, "a whole graph");
  rg_graph_release(g);
}

/* Versions counted anew: what was there before the graph is still told from what nodes made. */
static void test_numbered(void)
{
  sample s = sample_graph();
  int32_t made = 0;

  must(rg_ir_number_versions(s.g));
  is_status(rg_graph_check(s.g), RG_OK, "a whole graph");
  is_status(rg_graph_remove(s.g, producer(s.g, s.written)), RG_EARG, "a write outside stays");
  ok(SAYS("which was there before the graph"), "and says so");
  must(rg_graph_replace(s.g, s.over, s.y));
  is_status(rg_graph_remove(s.g, producer(s.g, s.over)), RG_OK, "a write within may go");
  ok(rg_ir_args(s.g, rg_ir_node_at(s.g, producer(s.g, s.z))) == NULL, "no arguments are none");
  is_status(rg_graph_insert(s.g, producer(s.g, s.z), 0, rg_record_count(), &s.y, 1, NULL, &made),
            RG_EARG, "behind the last operation there is none");
  ok(SAYS("there is no operation"), "and says so");
  rg_graph_release(s.g);
}

/* All that one call wrote to a storage is one version of it, however many views saw it. */
static void test_numbered_views(void)
{
  const rg_meta flat = { .dtype = RG_F32, .ndim = 1, .shape = { 6 } };
  rg_shape_args args = { 0 };
  rg_graph *g;
  int32_t later;

  must(rg_ir_new(&g));
  const int32_t y = unary(g, &rg_op_gelu, outside(g, RG_VALUE_INPUT, "x", 2, 3));
  const int32_t once = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  int32_t seen = y;

  rg_take_sizes(&args.shape, flat.shape, flat.ndim);
  must(rg_ir_insert_view(g, producer(g, once), &rg_op_view, &args, &flat, &seen));
  must(rg_ir_output_add(g, producer(g, once), &flat, RG_CPU, rg_ir_value_at(g, y)->storage, 1, seen,
                        &later));
  const int32_t twice = node_of(g, &rg_op_relu, &once, 1, NULL, once);

  returned(g, twice, "");
  is_status(rg_graph_check(g), RG_OK, "a whole graph");
  must(rg_ir_number_versions(g));
  is_int(rg_ir_value_at(g, once)->version, 1, "a result of the first write");
  is_int(rg_ir_value_at(g, later)->version, 1, "and what it left of the view");
  is_int(rg_ir_value_at(g, twice)->version, 2, "the second write");
  is_status(rg_graph_check(g), RG_OK, "and whole it stays");
  rg_graph_release(g);
}

/* Writes that are taken away together leave the one before them the last. */
static void test_writes_together(void)
{
  bool marked[4] = { false, false, true, true };
  rg_graph *g;
  int32_t node[3];

  must(rg_ir_new(&g));
  int32_t y = unary(g, &rg_op_gelu, outside(g, RG_VALUE_INPUT, "x", 2, 3));
  for (int32_t i = 0; i < 3; i++) {
    y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
    node[i] = producer(g, y);
  }
  must(rg_ir_remove_all(g, marked));
  is_status(rg_graph_check(g), RG_OK, "a whole graph");
  is_status(rg_ir_remove(g, node[0]), RG_OK, "the first write may go now");
  is_status(rg_graph_check(g), RG_OK, "and leaves a whole graph");
  rg_graph_release(g);
}

/* What is put beside a node that is computed again is computed again, too. */
static void test_recomputed(void)
{
  rg_graph *g;
  int32_t node;

  must(rg_ir_new(&g));
  const int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  const int32_t y = unary(g, &rg_op_relu, x);

  rg_ir_node_at(g, producer(g, y))->recomputed = true;
  must(rg_graph_insert(g, producer(g, y), 0, RG_OP_NEG, &x, 1, NULL, &node));
  ok(rg_ir_node_at(g, node)->recomputed, "as the one that it stands beside");
  rg_graph_release(g);
}

/* A node becomes another call: it stands where it stood, makes and draws what it did, and who reads
** what is right.  What does not fit is refused, and nothing changed. */
static void test_become(void)
{
  const rg_op *const linear_dropout = rg_ops[RG_OP_LINEAR_DROPOUT];
  rg_graph *g;
  int32_t n;

  must(rg_ir_new(&g));
  const int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  const int32_t w = outside(g, RG_VALUE_PARAMETER, "w", 4, 3);
  const int32_t in[3] = { x, w, RG_IR_NONE };
  const int32_t y = node_of(g, &rg_op_linear, in, 3, &(rg_linear_args){ .act = RG_ACT_NONE }, -1);
  const int32_t z = node_of(g, &rg_op_dropout, &y, 1, &(rg_dropout_args){ .p = 0.25 }, -1);
  const int32_t node = producer(g, z);
  const int32_t draw = rg_ir_node_at(g, node)->draw;
  const rg_linear_args args = { .act = RG_ACT_NONE, .p = 0.25 };

  returned(g, unary(g, &rg_op_neg, z), "");
  is_status(rg_ir_become(g, node, &rg_op_linear, in, 3, &args), RG_EARG, "one that draws stays so");
  ok(SAYS("cannot become a linear"), "and says so");
  is_status(rg_ir_become(g, producer(g, y), linear_dropout, in, 3, &args), RG_EARG,
            "and one that does not draws nothing");
  is_int(rg_ir_value_at(g, x)->n_uses, 1, "nobody else reads x");
  is_status(rg_graph_check(g), RG_OK, "nothing changed");
  is_status(rg_ir_become(g, node, linear_dropout, in, 3, &args), RG_OK, "dropout of a product");
  is_int(rg_ir_value_at(g, y)->n_uses, 0, "no longer reads it");
  is_int(rg_ir_value_at(g, w)->n_uses, 2, "but what that reads");
  ok(rg_ir_node_at(g, node)->draw == draw && rg_ir_value_at(g, z)->producer == node,
     "draws and makes what it did");
  must(rg_graph_remove(g, producer(g, y)));
  is_int(rg_ir_value_at(g, w)->n_uses, 1, "alone");
  (void)rg_graph_order(g, &n);
  is_int(n, 2, "two nodes are left");
  is_status(rg_graph_check(g), RG_OK, "a whole graph");
  rg_graph_release(g);
}

int main(void)
{
  test_become();
  test_numbered();
  test_numbered_views();
  test_writes_together();
  test_recomputed();
  test_random();
  test_writes();
  test_moved();
  test_body();
  test_readers();
  return done();
}
