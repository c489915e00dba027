/* SPDX-License-Identifier: MIT */
/*
** Graphs whose numbers have gaps, or begin with what is repeated later: what differences, files,
** texts and copies say of them; and graphs of which there is a lot.
*/
#include "graph/store.h"
#include "ir.h"
#include "op/fill.h"
#include "op/fused.h"
#include "op/view.h"

extern const rg_op rg_op_reshape;

/* An input, relu and gelu, which is handed out; in front of them, where told, what is gone. */
typedef struct pair {
  rg_graph *g;
  int32_t x, y, z;
} pair;

static pair pair_of(bool gap, const rg_op *second)
{
  pair p;

  must(rg_ir_new(&p.g));
  if (gap) {
    int32_t c = outside(p.g, RG_VALUE_CONSTANT, "c", 1, 1);
    int32_t gone = unary(p.g, &rg_op_neg, c);

    must(rg_ir_remove(p.g, producer(p.g, gone)));
  }
  p.x = outside(p.g, RG_VALUE_INPUT, "x", 2, 3);
  p.y = unary(p.g, &rg_op_relu, p.x);
  p.z = unary(p.g, second, p.y);
  returned(p.g, p.z, "z");
  return p;
}

/* -- Differences ----------------------------------------------------------------------------- */

/* What a difference is said to be, from either side: of a without a gap, and of b with one, whose
** values have numbers that are larger by two and whose nodes by one. */
static void differ(pair a, pair b, const char *from_a, const char *from_b)
{
  for (int32_t i = 0; i < 2; i++) {
    const char *says = i == 0 ? from_a : from_b;
    const rg_status status = rg_graph_same(i == 0 ? a.g : b.g, i == 0 ? b.g : a.g);

    if (!ok(status == RG_EARG && strcmp(rg_error_message(), says) == 0, says)) {
      printf("#   got %s\n", rg_error_message());
    }
  }
  rg_graph_release(a.g);
  rg_graph_release(b.g);
}

static void test_texts(void)
{
  pair a = pair_of(false, &rg_op_gelu);
  pair b = pair_of(true, &rg_op_gelu);

  is_status(rg_graph_same(a.g, b.g), RG_OK, "a gap is no difference");
  rg_ir_value_at(b.g, b.y)->meta.dtype = RG_F64;
  differ(a, b, "graph: %1 and %3 have other types, shapes or devices",
         "graph: %3 and %1 have other types, shapes or devices");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  rg_ir_name(b.g, b.y, text_in(b.g, "y"));
  differ(a, b, "graph: %1 and %3 are of other kinds or have other names",
         "graph: %3 and %1 are of other kinds or have other names");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  rg_ir_value_at(b.g, b.y)->version = 1;
  differ(a, b, "graph: %1 and %3 are in other storages, or other versions of them",
         "graph: %3 and %1 are in other storages, or other versions of them");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  must(rg_ir_set_input(b.g, producer(b.g, b.z), 0, b.x));
  differ(a, b, "graph: where one has %1, the other has %2, which stands for another one",
         "graph: where one has %2, the other has %1, which stands for another one");

  differ(pair_of(false, &rg_op_gelu), pair_of(true, &rg_op_neg),
         "graph: node 1 is a gelu, node 2 a neg, or of other numbers of values",
         "graph: node 2 is a neg, node 1 a gelu, or of other numbers of values");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  rg_ir_node_at(b.g, producer(b.g, b.z))->draw = 0;
  differ(a, b, "graph: node 1 and node 2 (gelu) run under other modes",
         "graph: node 2 and node 1 (gelu) run under other modes");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  rg_ir_node_at(b.g, producer(b.g, b.z))->module = text_in(b.g, "m");
  differ(a, b, "graph: node 1 and node 2 (gelu) stand in other modules",
         "graph: node 2 and node 1 (gelu) stand in other modules");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  (void)unary(b.g, &rg_op_neg, b.z);
  differ(a, b, "graph: one has 2 nodes, the other 3", "graph: one has 3 nodes, the other 2");

  a = pair_of(false, &rg_op_gelu);
  b = pair_of(true, &rg_op_gelu);
  rg_ir_node_at(b.g, producer(b.g, b.z))->parent = producer(b.g, b.y);
  b.g->edited = true; /* count bodies again */
  differ(a, b, "graph: node 0 and node 1 have bodies of 0 and of 1 nodes",
         "graph: node 1 and node 0 have bodies of 1 and of 0 nodes");
}

static void test_arguments(void)
{
  const rg_softmax_args args[2] = { { .axis = 0 }, { .axis = 1 } };
  pair p[2];

  for (int32_t i = 0; i < 2; i++) {
    p[i] = pair_of(i == 1, &rg_op_gelu);
    (void)node_of(p[i].g, &rg_op_softmax, &p[i].z, 1, &args[i], -1);
  }
  differ(p[0], p[1], "graph: node 2 and node 3 (softmax) have other arguments",
         "graph: node 3 and node 2 (softmax) have other arguments");
}

/* -- What is repeated ------------------------------------------------------------------------ */

/* Dropout, and it again, of which the first is node 0, or node 1 where another one is gone. */
static rg_graph *repeated_graph(bool gap, int32_t *first, int32_t *again)
{
  const rg_dropout_args p = { .p = 0.25 };
  rg_graph *g;
  int32_t gone = -1;

  must(rg_ir_new(&g));
  const int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

  if (gap) {
    gone = unary(g, &rg_op_neg, x);
  }
  const int32_t a = node_of(g, &rg_op_dropout, &x, 1, &p, -1);
  const int32_t b = node_of(g, &rg_op_dropout, &x, 1, &p, -1);

  *first = producer(g, a);
  *again = producer(g, b);
  rg_ir_node_at(g, *again)->recomputed = true;
  rg_ir_node_at(g, *again)->repeats = *first;
  returned(g, added(g, a, b), "y");
  if (gap) {
    must(rg_ir_remove(g, producer(g, gone)));
  }
  return g;
}

static void test_repeats(void)
{
  for (int32_t gap = 0; gap < 2; gap++) {
    int32_t first;
    int32_t again;
    rg_graph *g = repeated_graph(gap == 1, &first, &again);
    rg_graph *back = NULL;
    rg_graph *copy = NULL;
    const char *text = NULL;
    char says[40];

    is_int(first, gap, gap == 1 ? "behind a gap" : "from the first node on");
    is_status(rg_graph_check(g), RG_OK, "a draw that is repeated");
    (void)snprintf(says, sizeof(says), ", draws as %%%d",
                   rg_ir_outputs(g, rg_ir_node_at(g, first))[0]);
    must(rg_graph_print(g, &text));
    ok(strstr(text, says) != NULL, says);
    must(rg_graph_json(g, &text));
    is_status(rg_graph_parse(text, (int64_t)strlen(text), &back), RG_OK, "is read from a file");
    is_status(rg_graph_same(g, back), RG_OK, "as the same");
    is_int(rg_ir_node_at(back, 1)->repeats, 0, "node 1 repeats node 0 there");
    must(rg_graph_copy(g, &copy));
    is_status(rg_graph_same(g, copy), RG_OK, "and copied");
    rg_graph_release(copy);
    rg_graph_release(back);
    rg_graph_release(g);
  }
}

/* -- What a node begins with, and a lot of it -------------------------------------------------- */

static void test_begins(void)
{
  pair p = pair_of(false, &rg_op_gelu);
  const char *text = NULL;
  int32_t node;

  must(rg_ir_node_add(p.g, &rg_op_neg, &p.x, 1, NULL, &node));
  must(rg_graph_print(p.g, &text));
  ok(strstr(text, "\n  neg(%0)\n") != NULL, "what makes nothing is printed as a call");
  const rg_graph_modes *modes = rg_ir_modes_of(p.g, rg_ir_node_at(p.g, node)->modes);

  ok(modes->compute == -1 && modes->weight_cast == -1 && modes->autocast == -1,
     "a node begins without types of its own");
  ok(modes->layout == -1 && modes->vendor == 1 && modes->autotune == 1, "as a process does");
  ok(modes->deterministic == 0 && modes->tf32 == 0 && modes->gemm == 0, "in every mode");
  is_int(rg_ir_node_at(p.g, node)->generator, -1, "and draws from nothing");
  ok(rg_graph_retain(p.g) == p.g && rg_graph_retain(NULL) == NULL, "somebody else holds it");
  rg_graph_release(p.g);
  is_int(rg_ir_n_nodes(p.g), 3, "and still does");
  rg_graph_release(p.g);
}

/* A compound that hands out more than there was room for, at each size. */
static void test_many_outputs(void)
{
  const rg_softmax_args axis = { .axis = 1 };
  pair p = pair_of(false, &rg_op_gelu);
  int32_t compound;
  int32_t wrong = 0;

  must(rg_ir_node_add(p.g, &rg_op_softmax, &p.z, 1, &axis, &compound));
  must(rg_ir_begin(p.g, compound));
  for (int32_t i = 0; i < 3000; i++) {
    const int32_t made = unary(p.g, &rg_op_neg, p.z);

    must(rg_ir_output_share(p.g, compound, made));
    const rg_ir_node *node = rg_ir_node_at(p.g, compound);

    wrong += node->n_out != i + 1 || rg_ir_outputs(p.g, node)[i] != made;
    wrong += rg_ir_value_at(p.g, made)->n_uses != 1;
  }
  rg_ir_end(p.g);
  is_int(wrong, 0, "a compound hands out 3000 values");
  is_status(rg_graph_check(p.g), RG_OK, "each of which its body makes");
  rg_graph_release(p.g);
}

/* Texts are kept once, whatever their number. */
static void test_many_texts(void)
{
  enum { N = 3000 };
  static rg_ir_text number[N];
  pair p = pair_of(false, &rg_op_gelu);
  int32_t moved = 0;
  int32_t other = 0;

  for (int32_t i = 0; i < N; i++) {
    char text[24];

    (void)snprintf(text, sizeof(text), "text %d", i);
    number[i] = text_in(p.g, text);
    for (int32_t k = i; k >= 0; k -= 1 + i / 7) {
      (void)snprintf(text, sizeof(text), "text %d", k);
      moved += text_in(p.g, text) != number[k];
      other += strcmp(rg_ir_text_of(p.g, number[k]), text) != 0;
    }
  }
  is_int(moved, 0, "a text that was there has the number that it had");
  is_int(other, 0, "and is what it was");
  rg_graph_release(p.g);
}

/* Sizes and links behind the last that is there are nothing, however few there are. */
static void test_junk(void)
{
  static const struct {
    int32_t given;
    int32_t kept;
  } each[] = {
    { -1, 0 }, { 0, 0 }, { 1, 1 }, { RG_MAX_DIMS, RG_MAX_DIMS }, { RG_MAX_DIMS + 1, RG_MAX_DIMS }
  };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    rg_fill_args fill;
    rg_shape_args shape;
    rg_graph *g;
    int32_t node;
    int32_t wrong = 0;

    memset(&fill, 0x55, sizeof(fill));
    memset(&shape, 0x55, sizeof(shape));
    fill.meta.ndim = each[i].given;
    shape.shape.n = each[i].given;
    must(rg_ir_new(&g));
    int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

    must(rg_ir_node_add(g, rg_ops[RG_OP_FILL], NULL, 0, &fill, &node));
    const rg_fill_args *filled = rg_ir_args(g, rg_ir_node_at(g, node));

    for (int32_t k = 0; k < RG_MAX_DIMS; k++) {
      wrong += (filled->meta.shape[k] != 0) != (k < each[i].kept);
    }
    wrong += filled->value != fill.value || filled->meta.ndim != each[i].given;
    must(rg_ir_node_add(g, &rg_op_reshape, &x, 1, &shape, &node));
    const rg_shape_args *sizes = rg_ir_args(g, rg_ir_node_at(g, node));

    for (int32_t k = 0; k < RG_MAX_DIMS; k++) {
      wrong += (sizes->shape.at[k] != 0) != (k < each[i].kept);
    }
    wrong += sizes->shape.n != each[i].given;
    is_int(wrong, 0, "what is kept of sizes");
    rg_graph_release(g);
  }
  for (int32_t n = -1; n <= RG_FUSED_LINKS + 1; n++) {
    rg_fused_args args;
    rg_graph *g;
    int32_t node;
    int32_t wrong = 0;

    memset(&args, 0x55, sizeof(args));
    args.links.n = n;
    must(rg_ir_new(&g));
    int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

    must(rg_ir_node_add(g, rg_ops[RG_OP_FUSED], &x, 1, &args, &node));
    const rg_fused_args *kept = rg_ir_args(g, rg_ir_node_at(g, node));

    for (int32_t k = 0; k < RG_FUSED_LINKS; k++) {
      wrong += (kept->links.at[k].id != 0) != (k < n);
    }
    is_int(wrong, 0, "what is kept of links");
    rg_graph_release(g);
  }
}

/* The same of arguments behind others, wherever they lie in the struct. */
static void test_junk_behind(void)
{
  typedef struct behind {
    int64_t first;
    rg_meta meta;
    rg_sizes sizes;
    rg_links links;
  } behind;
  static const rg_arg rows[] = {
    { .name = "first", .type = RG_ARG_i64, .offset = offsetof(behind, first) },
    { .name = "meta", .type = RG_ARG_meta, .offset = offsetof(behind, meta) },
    { .name = "sizes", .type = RG_ARG_sizes, .offset = offsetof(behind, sizes) },
    { .name = "links", .type = RG_ARG_links, .offset = offsetof(behind, links) },
  };
  static const rg_op op = { .name = "op", .arg = rows, .n_args = 4, .args_size = sizeof(behind) };

  for (int32_t n = 0; n <= RG_MAX_DIMS; n++) {
    behind args;
    behind want = { .first = 5 };
    rg_graph *g;
    int32_t node;

    memset(&args, 0x55, sizeof(args));
    args.first = 5;
    want.meta.dtype = args.meta.dtype;
    args.meta.ndim = want.meta.ndim = n;
    args.sizes.n = want.sizes.n = n;
    args.links.n = want.links.n = n;
    memcpy(want.meta.shape, args.meta.shape, (size_t)n * sizeof(int64_t));
    memcpy(want.sizes.at, args.sizes.at, (size_t)n * sizeof(int64_t));
    memcpy(want.links.at, args.links.at, (size_t)n * sizeof(rg_link));
    must(rg_ir_new(&g));
    must(rg_ir_node_add(g, &op, NULL, 0, &args, &node));
    const behind *kept = rg_ir_args(g, rg_ir_node_at(g, node));

    ok(kept->first == 5 && kept->meta.dtype == want.meta.dtype && kept->meta.ndim == n &&
           memcmp(kept->meta.shape, want.meta.shape, sizeof(want.meta.shape)) == 0 &&
           kept->sizes.n == n &&
           memcmp(kept->sizes.at, want.sizes.at, sizeof(want.sizes.at)) == 0 &&
           kept->links.n == n && memcmp(kept->links.at, want.links.at, sizeof(want.links.at)) == 0,
       "what is kept of arguments behind others");
    rg_graph_release(g);
  }
}

/* A value that is not there, on either side of those that are. */
static void test_no_value(void)
{
  rg_graph *g;
  int32_t node;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

  for (int32_t i = -3; i <= 3; i++) {
    rg_status status = rg_ir_node_add(g, &rg_op_relu, &i, 1, NULL, &node);

    is_status(status, i == -1 || i == x ? RG_OK : RG_EARG, "an input");
  }
  rg_graph_release(g);
}

int main(void)
{
  test_junk();
  test_junk_behind();
  test_no_value();
  test_texts();
  test_arguments();
  test_repeats();
  test_begins();
  test_many_outputs();
  test_many_texts();
  return done();
}
