/* SPDX-License-Identifier: MIT */
/*
** Tensors of ONNX files: how many bytes and numbers hold elements of which type, elements of less
** than a byte, lists longer than what is converted at once, what is said of elements elsewhere.
*/
#include <stdio.h>
#include <stdlib.h>

#include "tap.h"

#include "ridge/onnx.h"

#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

enum { ROOM = 1 << 17 };

/* A tensor's message, field by field. */
typedef struct message {
  char at[ROOM];
  int64_t n;
} message;

static message m;

static void number(uint64_t value)
{
  for (; value >= 0x80; value >>= 7) {
    m.at[m.n++] = (char)(value | 0x80);
  }
  m.at[m.n++] = (char)value;
}

static void whole(int32_t field, uint64_t value)
{
  number((uint64_t)field << 3);
  number(value);
}

static void bytes(int32_t field, const char *data, int64_t n)
{
  number((uint64_t)field << 3 | 2);
  number((uint64_t)n);
  if (n > 0) {
    memcpy(m.at + m.n, data, (size_t)n);
  }
  m.n += n;
}

/* Fields of a TensorProto. */
enum {
  DIMS = 1,
  TYPE,
  FLOATS = 4,
  INT32S,
  STRINGS,
  INT64S,
  RAW = 9,
  DOUBLES,
  UINT64S,
  EXTERNAL = 13,
  LOCATION
};

static void begin(int32_t type, int64_t count)
{
  m.n = 0;
  whole(DIMS, (uint64_t)count);
  whole(TYPE, (uint64_t)type);
}

/* An entry of external_data. */
static void entry(const char *key, const char *value)
{
  char text[128];
  const int n = snprintf(text, sizeof(text), "\x0a%c%s\x12%c%s", (int)strlen(key), key,
                         (int)strlen(value), value);

  bytes(EXTERNAL, text, n);
}

static rg_status described(rg_onnx_tensor *out)
{
  return rg_onnx_tensor_of(m.at, 0, m.n, out);
}

/* -- How much holds so many elements ----------------------------------------------------------- */

static void test_small_types(void)
{
  static const struct {
    int32_t type, bits;
  } types[] = { { 21, 4 }, { 22, 4 }, { 25, 2 }, { 26, 2 } };
  static const char zeros[8];
  bool right[2] = { true, true };
  rg_onnx_tensor t;

  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    for (int64_t count = 0; count <= 13; count++) {
      const int64_t need = (count * types[i].bits + 7) / 8;

      for (int64_t n = 0; n <= 8; n++) {
        begin(types[i].type, count);
        bytes(RAW, zeros, n);
        right[0] = right[0] && described(&t) == (n == need ? RG_OK : RG_EFORMAT);
        begin(types[i].type, count);
        bytes(INT32S, zeros, n); /* a varint of 0 is a byte */
        right[1] = right[1] && described(&t) == (n == need ? RG_OK : RG_EFORMAT);
      }
    }
  }
  ok(right[0], "bytes of elements of two and four bits: as many as they fill, and begin");
  ok(right[1], "so many numbers of a list");
}

static void test_sizes(void)
{
  const uint64_t large = (uint64_t)1 << 31;
  rg_onnx_tensor t;

  for (int32_t at = 0; at < 3; at++) {
    m.n = 0;
    for (int32_t i = 0; i < 3; i++) {
      whole(DIMS, i == at ? 0 : large);
    }
    whole(TYPE, 1);
    is_status(described(&t), RG_OK, "no elements, whatever the other sizes");
    is_int(t.count, 0, "none");
  }
  begin(8, 0);
  bytes(RAW, NULL, 0);
  is_status(described(&t), RG_EFORMAT, "no strings in bytes");
  m.n = 0;
  bytes(TYPE, "\1", 1);
  is_status(described(&t), RG_EFORMAT, "one number is not packed");
  ok(SAYS("is stored as kind 2, not 0"), rg_error_message());
}

/* -- Elements -------------------------------------------------------------------------------- */

static int32_t element(int64_t i, int32_t bits)
{
  return (int32_t)((i * 5 + i / 7 + i / 4096) & ((1 << bits) - 1));
}

/* More than are converted at once, the last of them in a part of a byte, the rest of which is full
** of something else. */
static void test_long_lists(void)
{
  static const struct {
    int32_t type, bits;
  } types[] = { { 21, 4 }, { 25, 2 } };

  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    const int32_t bits = types[i].bits;
    const int32_t each = 8 / bits;
    const int64_t count = 4096 * each + each + 1;
    int32_t kept[2];

    for (int32_t pad = 0; pad < 2; pad++) {
      static char list[2 * 4200];
      rg_tensor *x = NULL;
      int64_t wrong = 0;
      int64_t n = 0;

      for (int64_t k = 0; k < count; k += each) {
        int32_t byte = 0;

        for (int64_t j = 0; j < each; j++) {
          byte |= (k + j < count ? element(k + j, bits) : pad + 1) << (j * bits);
        }
        if (byte >= 0x80) {
          list[n++] = (char)byte;
          list[n++] = 1;
        } else {
          list[n++] = (char)byte;
        }
      }
      begin(types[i].type, count);
      bytes(INT32S, list, n);
      is_status(rg_onnx_tensor_read(m.at, -1, 0, m.n, &x), RG_OK, "a long list");
      for (int64_t k = 0; x != NULL && k < count; k++) {
        wrong += ((const uint8_t *)x->_data)[k] != element(k, bits);
      }
      is_int(wrong, 0, "each element");
      /* of the block, which is larger */
      kept[pad] = x != NULL ? ((const uint8_t *)x->_data)[count] : 0;
      rg_tensor_release(x);
    }
    ok(kept[0] != 1 || kept[1] != 2, "and none more than there are");
  }
}

/* Numbers of each width in their list: more than 4,096 bytes of them. */
static void test_widths(void)
{
  enum { COUNT = 5000 };
  static const struct {
    int32_t type, list, size;
  } types[] = { { 3, INT32S, 1 },  { 2, INT32S, 1 },   { 6, INT32S, 4 }, { 5, INT32S, 0 },
                { 7, INT64S, 8 },  { 12, UINT64S, 0 }, { 1, FLOATS, 4 }, { 11, DOUBLES, 8 },
                { 10, INT32S, 2 }, { 16, INT32S, 2 } };
  static char list[8 * COUNT];

  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    rg_tensor *x = NULL;
    int64_t wrong = 0;
    int64_t n = 0;

    for (int64_t k = 0; k < COUNT; k++) {
      const int64_t value = k % 113;
      const float single = (float)value;
      const double wide = (double)value;

      if (types[i].list == FLOATS) {
        memcpy(list + n, &single, 4);
        n += 4;
      } else if (types[i].list == DOUBLES) {
        memcpy(list + n, &wide, 8);
        n += 8;
      } else {
        list[n++] = (char)value;
      }
    }
    begin(types[i].type, COUNT);
    bytes(types[i].list, list, n);
    is_status(rg_onnx_tensor_read(m.at, -1, 0, m.n, &x), RG_OK, "a list of numbers");
    for (int64_t k = 0; x != NULL && k < COUNT; k++) {
      const char *at = (const char *)x->_data + k * rg_dtype_bytes(x->_dtype);
      const int64_t value = k % 113;
      const float single = (float)value;
      const double real = (double)value;

      wrong += types[i].list == FLOATS ? memcmp(at, &single, 4) != 0
               : types[i].list == DOUBLES
                   ? memcmp(at, &real, 8) != 0
                   : memcmp(at, &value, (size_t)rg_dtype_bytes(x->_dtype)) != 0;
    }
    is_int(wrong, 0, "each of them");
    ok(x == NULL || types[i].size == 0 || rg_dtype_bytes(x->_dtype) == types[i].size, "its width");
    rg_tensor_release(x);
  }
}

/* Numbers of a list, one after the other: each is somewhere. */
static void test_unpacked(void)
{
  static const char list[] = "\x08\x01\x2a\x04\xac\x02\x05\x07";
  rg_onnx_cursor c = { .start = list, .end = 8, .message = RG_ONNX_tensor };
  rg_onnx_item item = { .field = 0 };

  is_status(rg_onnx_next(&c, &item), RG_OK, "a size");
  is_status(rg_onnx_next(&c, &item), RG_OK, "a list");
  is_int(item.at, 4, "it begins there");
  is_status(rg_onnx_unpack(&item), RG_OK, "a number");
  is_int(item.whole, 300, "of two bytes");
  is_int(item.at, 6, "the next is behind them");
  is_status(rg_onnx_unpack(&item), RG_OK, "another");
  is_int(item.at, 7, "of one");
  is_int(item.bytes, 1, "one is left");
}

/* -- Elements elsewhere ------------------------------------------------------------------------ */

static void test_elsewhere(void)
{
  static const struct {
    const char *key, *value;
    rg_status want;
  } entries[] = {
    { "length", "12", RG_OK },
    { "length", "0", RG_EFORMAT },
    { "length", "11", RG_EFORMAT },
    { "length", "", RG_EFORMAT },
    { "offset", "", RG_EFORMAT },
    { "offset", "-1", RG_EFORMAT },
    { "offset", "1e3", RG_EFORMAT },
    { "offset", "9223372036854775809", RG_EFORMAT },
    { "offset", "99999999999999999999999", RG_EFORMAT },
    { "offset", "922337203685477579", RG_OK },
    { "checksum", "", RG_OK },
  };
  rg_onnx_tensor t;
  rg_tensor *x = NULL;

  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
    begin(1, 3);
    entry("location", "w");
    entry(entries[i].key, entries[i].value);
    whole(LOCATION, 1);
    is_status(described(&t), entries[i].want, entries[i].value);
  }
  is_int(t.there, -1, "nothing of it is there");
  is_status(rg_onnx_tensor_read(m.at, -1, 0, m.n, &x), RG_EARG, "nor can be read");
  ok(SAYS("in another file"), rg_error_message());

  begin(1, 1);
  entry("location", "w");
  bytes(RAW, "\0\0\x80\x3f", 4);
  is_status(described(&t), RG_OK, "a place that does not count");
  ok(t.location == NULL, "is none");
  is_int(t.there, 1, "the element is there");
}

/* -- Writing --------------------------------------------------------------------------------- */

/* More than the buffer begins with, in pieces that would fit into an empty one. */
static void test_long_texts(void)
{
  static char text[3000];
  rg_onnx_writer *w = NULL;
  rg_onnx_written written;
  int64_t wrong = 0;

  memset(text, 'a', sizeof(text));
  is_status(rg_onnx_writer_new(&w), RG_OK, "a writer");
  for (int32_t i = 0; i < 40; i++) {
    is_status(rg_onnx_put_text(w, RG_ONNX_model_producer_name, text, sizeof(text)), RG_OK,
              "a long text");
  }
  rg_onnx_written_of(w, &written);
  is_int(written.bytes, 40 * (3000 + 3), "all of them");
  for (int64_t i = 0; i < written.bytes; i++) {
    wrong += i % 3003 >= 3 && written.data[i] != 'a';
  }
  is_int(wrong, 0, "as they are");
  rg_onnx_writer_release(w);
}

int main(void)
{
  test_small_types();
  test_sizes();
  test_long_lists();
  test_widths();
  test_unpacked();
  test_elsewhere();
  test_long_texts();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
