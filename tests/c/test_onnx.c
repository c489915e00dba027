/* SPDX-License-Identifier: MIT */
/*
** ONNX's messages: what is written is read, field by field; gaps are counted; what is damaged or
** does not belong is refused.
*/
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"

#include "ridge/onnx.h"

static rg_onnx_writer *begun(void)
{
  rg_onnx_writer *w = NULL;

  is_status(rg_onnx_writer_new(&w), RG_OK, "a writer");
  return w;
}

/* A model of a graph of a node: its bytes in w. */
static void write_sample(rg_onnx_writer *w)
{
  static const int64_t ints[] = { 0, -1, 300, INT64_MIN };
  static const float floats[] = { 0.5F, -1.0F };

  is_status(rg_onnx_put_int(w, RG_ONNX_model_ir_version, 8), RG_OK, "an int");
  is_status(rg_onnx_begin(w, RG_ONNX_model_graph), RG_OK, "a graph");
  is_status(rg_onnx_begin(w, RG_ONNX_graph_node), RG_OK, "a node in it");
  is_status(rg_onnx_put_text(w, RG_ONNX_node_op_type, "Relu", 4), RG_OK, "a text");
  is_status(rg_onnx_put_text(w, RG_ONNX_node_name, NULL, 0), RG_OK, "an empty text");
  is_status(rg_onnx_begin(w, RG_ONNX_node_attribute), RG_OK, "an attribute");
  is_status(rg_onnx_put_float(w, RG_ONNX_attribute_f, 0.25F), RG_OK, "a float");
  is_status(rg_onnx_put_ints(w, RG_ONNX_attribute_ints, ints, 4), RG_OK, "ints");
  is_status(rg_onnx_put_floats(w, RG_ONNX_attribute_floats, floats, 2), RG_OK, "floats");
  is_status(rg_onnx_end(w), RG_OK, "the attribute ends");
  is_status(rg_onnx_end(w), RG_OK, "the node ends");
}

static rg_onnx_item next(rg_onnx_cursor *c, int32_t field, const char *what)
{
  rg_onnx_item item = { .field = -2 };

  is_status(rg_onnx_next(c, &item), RG_OK, what);
  is_int(item.field, field, what);
  return item;
}

static rg_onnx_cursor inside(const rg_onnx_cursor *c, const rg_onnx_item *item, int32_t message)
{
  return (rg_onnx_cursor){
    .start = c->start, .at = item->at, .end = item->at + item->bytes, .message = message
  };
}

static void read_attribute(const rg_onnx_cursor *node, const rg_onnx_item *item)
{
  static const int64_t ints[] = { 0, -1, 300, INT64_MIN };
  rg_onnx_cursor c = inside(node, item, RG_ONNX_attribute);
  rg_onnx_item field = next(&c, RG_ONNX_attribute_f, "the float");

  close_to(field.real, 0.25, 0, "its number");
  field = next(&c, RG_ONNX_attribute_ints, "the ints");
  is_int(field.packed, 1, "which are packed");
  for (int32_t i = 0; i < 4; i++) {
    is_status(rg_onnx_unpack(&field), RG_OK, "one of them");
    is_int(field.whole, ints[i], "its number");
  }
  is_status(rg_onnx_unpack(&field), RG_EARG, "no fifth one");
  field = next(&c, RG_ONNX_attribute_floats, "the floats");
  is_status(rg_onnx_unpack(&field), RG_OK, "one of them");
  close_to(field.real, 0.5, 0, "its number");
  next(&c, -1, "no other field");
}

static void test_there_and_back(void)
{
  rg_onnx_writer *w = begun();
  rg_onnx_written written;
  rg_onnx_item graph;
  rg_onnx_item node;
  rg_onnx_item field;

  write_sample(w);
  is_status(rg_onnx_end(w), RG_OK, "the graph ends");
  is_status(rg_onnx_end(w), RG_EARG, "nothing else is open");
  rg_onnx_written_of(w, &written);
  is_int(written.n_open, 0, "nothing is open");
  is_int(written.whole, written.bytes, "no gap");
  rg_onnx_cursor c = { .start = written.data, .end = written.bytes, .message = RG_ONNX_model };
  is_int(next(&c, RG_ONNX_model_ir_version, "the version").whole, 8, "its number");
  graph = next(&c, RG_ONNX_model_graph, "the graph");
  next(&c, -1, "no other field");
  c = inside(&c, &graph, RG_ONNX_graph);
  node = next(&c, RG_ONNX_graph_node, "the node");
  rg_onnx_cursor in = inside(&c, &node, RG_ONNX_node);
  field = next(&in, RG_ONNX_node_op_type, "the operator");
  ok(field.bytes == 4 && memcmp(field.data, "Relu", 4) == 0, "its name");
  is_int(next(&in, RG_ONNX_node_name, "the name").bytes, 0, "which is empty");
  field = next(&in, RG_ONNX_node_attribute, "the attribute");
  read_attribute(&in, &field);
  rg_onnx_writer_release(w);
}

/* Elements are counted and stand where their gap is, whatever is moved later. */
static void test_gaps(void)
{
  rg_onnx_writer *w = begun();
  rg_onnx_written written;
  rg_onnx_tensor t;

  write_sample(w);
  for (int64_t i = 0; i < 100; i++) {
    if (rg_onnx_begin(w, RG_ONNX_graph_initializer) != RG_OK ||
        rg_onnx_put_int(w, RG_ONNX_tensor_dims, 10 + i) != RG_OK ||
        rg_onnx_put_int(w, RG_ONNX_tensor_data_type, 1) != RG_OK ||
        rg_onnx_put_gap(w, RG_ONNX_tensor_raw_data, 4 * (10 + i)) != RG_OK ||
        rg_onnx_end(w) != RG_OK) {
      tap_bail(rg_error_message());
    }
  }
  is_status(rg_onnx_end(w), RG_OK, "the graph ends");
  rg_onnx_written_of(w, &written);
  is_int(written.n_gaps, 100, "gaps");
  is_int(written.whole, written.bytes + 4 * (100 * 10 + 99 * 50), "and their bytes");

  char *file = malloc((size_t)written.whole);
  if (file == NULL) {
    tap_bail("no memory");
  }
  int64_t at = 0;
  int64_t from = 0;
  for (int32_t i = 0; i < written.n_gaps; i++) {
    memcpy(file + at, written.data + from, (size_t)(written.gaps[i] - from));
    at += written.gaps[i] - from;
    from = written.gaps[i];
    memset(file + at, i, 4 * (10 + (size_t)i));
    at += 4 * (10 + i);
  }
  memcpy(file + at, written.data + from, (size_t)(written.bytes - from));
  rg_onnx_cursor c = { .start = file, .end = written.whole, .message = RG_ONNX_model };
  rg_onnx_item item = next(&c, RG_ONNX_model_ir_version, "the version");
  item = next(&c, RG_ONNX_model_graph, "the graph");
  c = inside(&c, &item, RG_ONNX_graph);
  next(&c, RG_ONNX_graph_node, "the node");
  bool good = true;
  for (int32_t i = 0; i < 100 && good; i++) {
    good = rg_onnx_next(&c, &item) == RG_OK && item.field == RG_ONNX_graph_initializer &&
           rg_onnx_tensor_of(file, item.at, item.bytes, &t) == RG_OK && t.count == 10 + i &&
           file[t.raw_at] == i && file[t.raw_at + t.raw_bytes - 1] == i;
  }
  ok(good, "each weight has its own elements");
  free(file);
  rg_onnx_writer_release(w);
}

static void test_misused(void)
{
  rg_onnx_writer *w = begun();
  rg_status status = RG_OK;

  is_status(rg_onnx_put_int(w, RG_ONNX_node_name, 1), RG_EARG, "a field of another message");
  is_status(rg_onnx_put_float(w, RG_ONNX_model_ir_version, 1), RG_EARG, "another kind");
  is_status(rg_onnx_put_int(w, RG_ONNX_FIELD_COUNT, 1), RG_EARG, "no field");
  is_status(rg_onnx_begin(w, RG_ONNX_model_ir_version), RG_EARG, "no message");
  is_status(rg_onnx_begin(w, RG_ONNX_model_graph), RG_OK, "a graph");
  for (int32_t i = 0; i < 21 && status == RG_OK; i++) { /* graph, node, attribute, graph ... */
    status = rg_onnx_begin(w, RG_ONNX_graph_node);
    status = status == RG_OK ? rg_onnx_begin(w, RG_ONNX_node_attribute) : status;
    status = status == RG_OK ? rg_onnx_begin(w, RG_ONNX_attribute_g) : status;
  }
  is_status(status, RG_EARG, "more than 64 in each other");
  rg_onnx_writer_release(w);
  rg_onnx_writer_release(NULL);
  is_status(rg_onnx_writer_new(NULL), RG_EARG, "nowhere to put it");
}

/* The sentence that is said of a model of these bytes. */
static void refused(const char *bytes, int64_t n, const char *sentence)
{
  rg_onnx_cursor c = { .start = bytes, .end = n, .message = RG_ONNX_model };
  rg_onnx_item item = { .field = 0 };
  rg_status status = RG_OK;

  while (status == RG_OK && item.field >= 0) {
    status = rg_onnx_next(&c, &item);
  }
  is_int(status, RG_EFORMAT, sentence);
  ok(strcmp(rg_error_message(), sentence) == 0, rg_error_message());
}

static void test_damaged(void)
{
  refused("\x08", 1, "byte 1: it is cut off in a model");
  refused("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12,
          "byte 11: it is cut off in a model");
  refused("\x3a\x05gra", 5, "byte 2: a length of 5 bytes in a model of which 3 bytes are left");
  refused("\x3a\x04gra", 5, "byte 2: a length of 4 bytes in a model of which 3 bytes are left");
  refused("\x88\x80\x80\x80\x80\x01\x01", 7, "byte 6: 34359738376 is no field of a model");
  refused("\x3b", 1, "byte 1: 59 is no field of a model"); /* a group */
  refused("\x00\x01", 2, "byte 1: 0 is no field of a model");
  refused("\x38\x01", 2, "byte 2: graph of a model is stored as kind 0, not 2");
  refused("\xa5\x06\x01", 3, "byte 2: it is cut off in a model"); /* 4 bytes of an unknown field */
  refused("\xa1\x06\x01", 3, "byte 2: it is cut off in a model"); /* 8 bytes */
}

/* Lists that are packed are made of whole numbers. */
static void test_packed(void)
{
  static const char floats[] = "\x3a\x06\0\0\x80\x3f\0\0";
  rg_onnx_cursor c = { .start = floats, .end = 8, .message = RG_ONNX_attribute };
  rg_onnx_item item = { .field = 0 };

  is_status(rg_onnx_next(&c, &item), RG_EFORMAT, "six bytes of floats");
  ok(strcmp(rg_error_message(), "byte 2: floats of a attribute has 6 bytes, numbers have 4") == 0,
     rg_error_message());
}

/* -- Tensors ---------------------------------------------------------------------------------- */

static char folder[] = "/tmp/ridge-onnx-XXXXXX";

/* A file in the folder with these bytes. */
static void put_file(const char *name, const char *bytes, size_t n)
{
  char path[128];

  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");

  if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
    tap_bail("a file cannot be written");
  }
}

static void drop_file(const char *name)
{
  char path[128];

  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  (void)unlink(path);
}

/* A tensor of so many elements of a type, with what stands behind them in its message. */
static rg_status describe(int32_t type, const int64_t *dims, int32_t n, const char *rest,
                          int64_t rest_bytes, rg_onnx_tensor *out)
{
  static char bytes[512];
  rg_onnx_writer *w = begun();
  rg_onnx_written written;

  if (rg_onnx_begin(w, RG_ONNX_model_graph) != RG_OK ||
      rg_onnx_begin(w, RG_ONNX_graph_initializer) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_onnx_written_of(w, &written);
  const int64_t from = written.bytes;

  if (rg_onnx_put_ints(w, RG_ONNX_tensor_dims, dims, n) != RG_OK ||
      rg_onnx_put_int(w, RG_ONNX_tensor_data_type, type) != RG_OK ||
      rg_onnx_put_message(w, rest, rest_bytes) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_onnx_written_of(w, &written);
  memcpy(bytes, written.data + from, (size_t)(written.bytes - from));
  rg_status status = rg_onnx_tensor_of(bytes, 0, written.bytes - from, out);

  rg_onnx_writer_release(w);
  return status;
}

/* Four bits an element, in another file behind five bytes of something else; more than are read at
** once, and an odd number, so that half of the last byte is empty. */
static void test_external(void)
{
  enum { COUNT = 20001, BEFORE = 5 };
  static const char where[] = "\x6a\x0d\x0a\x08location\x12\x01w"
                              "\x6a\x0b\x0a\x06offset\x12\x01"
                              "5\x70\x01";
  static char file[BEFORE + (COUNT + 1) / 2];
  const int64_t count = COUNT;
  rg_onnx_tensor t;
  rg_tensor *x = NULL;
  int64_t bytes = 0;
  int32_t open_file = -1;
  int64_t wrong = 0;

  for (int32_t i = 0; i < COUNT; i++) { /* -8 .. 6 over and over, no two parts alike */
    file[BEFORE + i / 2] = (char)(file[BEFORE + i / 2] | ((i % 15 - 8) & 15) << 4 * (i % 2));
  }
  put_file("w", file, sizeof(file));
  is_status(describe(22, &count, 1, where, sizeof(where) - 1, &t), RG_OK, "elements elsewhere");
  is_int(t.external_at, BEFORE, "where they begin");
  is_int(t.raw_bytes, (COUNT + 1) / 2, "bytes of them");
  is_status(rg_onnx_open(folder, "w", &bytes, &open_file), RG_OK, "the file");
  is_status(rg_onnx_external_read(open_file, &t, &x), RG_OK, "is read");
  for (int32_t i = 0; i < COUNT && x != NULL; i++) {
    wrong += ((const int8_t *)x->_data)[i] != i % 15 - 8;
  }
  is_int(wrong, 0, "each of them");
  rg_tensor_release(x);
  rg_onnx_close(open_file);

  char link[128];
  (void)snprintf(link, sizeof(link), "%s/l", folder);
  ok(symlink("w", link) == 0, "a link to the file");
  is_status(rg_onnx_open(folder, "l", &bytes, &open_file), RG_EFORMAT, "is not followed");
  drop_file("l");
  drop_file("w");
}

/* Four bits each, in numbers of a list: an odd number of elements in an exact number of bytes. */
static void test_half_bytes(void)
{
  static const char list[] = "\x08\x03\x10\x16\x2a\x03\x98\x01\x07"; /* i4: -8, -7, 7 */
  rg_tensor *x = NULL;

  is_status(rg_onnx_tensor_read(list, -1, 0, sizeof(list) - 1, &x), RG_OK, "three elements");
  ok(x != NULL && x->_count == 3 && ((const int8_t *)x->_data)[0] == -8 &&
         ((const int8_t *)x->_data)[1] == -7 && ((const int8_t *)x->_data)[2] == 7,
     "-8, -7 and 7");
  rg_tensor_release(x);
}

static void test_refused_tensors(void)
{
  static const char segment[] = "\x1a\x00";
  const int64_t large[] = { (int64_t)1 << 31, (int64_t)1 << 31 };
  const int64_t none = 0;
  rg_onnx_tensor t;

  is_status(describe(1, large, 2, NULL, 0, &t), RG_EFORMAT, "2 ** 62 elements");
  ok(strstr(rg_error_message(), "more elements than a number can count") != NULL,
     rg_error_message());
  is_status(describe(1, &none, 1, segment, 2, &t), RG_EFORMAT, "a part of a tensor");
  ok(strstr(rg_error_message(), "is stored in segments") != NULL, rg_error_message());
}

static void test_tables(void)
{
  ok(rg_onnx_field_of(-1) == NULL && rg_onnx_field_of(RG_ONNX_FIELD_COUNT) == NULL, "no fields");
  ok(strcmp(rg_onnx_message_name(RG_ONNX_MESSAGE_COUNT), "?") == 0, "no message");
  ok(rg_onnx_type_of(0) == NULL && rg_onnx_type_of(99) == NULL, "no types");
  ok(strcmp(rg_onnx_type_of(16)->name, "bf16") == 0, "a type");
}

int main(void)
{
  test_there_and_back();
  test_gaps();
  test_misused();
  test_damaged();
  test_packed();
  if (mkdtemp(folder) == NULL) {
    tap_bail("no folder");
  }
  test_external();
  (void)rmdir(folder);
  test_half_bytes();
  test_refused_tensors();
  test_tables();
  return done();
}
