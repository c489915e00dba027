/* SPDX-License-Identifier: MIT */
/*
** Files of tensors: each end of a file, headers that lie, tensors that come when they are used, on
** two threads at once, and files that change meanwhile.
*/
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

#include "ridge/safetensors.h"

static char path[64];

/* A file with a header and n bytes 0, 1, 2 ... behind it. */
static void put(const char *header, int n)
{
  FILE *f = fopen(path, "wb");
  uint64_t length = strlen(header);

  if (f == NULL) {
    exit(1);
  }
  (void)fwrite(&length, 8, 1, f);
  (void)fwrite(header, 1, length, f);
  for (int i = 0; i < n; i++) {
    (void)fputc(i, f);
  }
  (void)fclose(f);
}

static const char two[] = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[3,19]},"
                          "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                          "\"__metadata__\":{\"who\":\"me\",\"n\":3}}";

static rg_safetensors *opened(void)
{
  rg_safetensors *file = NULL;

  is_status(rg_safetensors_open(path, &file), RG_OK, "it opens");
  return file;
}

static void refused(const char *header, int n, const char *words)
{
  rg_safetensors *file = NULL;

  put(header, n);
  is_status(rg_safetensors_open(path, &file), RG_EFORMAT, words);
  ok(strstr(rg_error_message(), words) != NULL, rg_error_message());
  ok(file == NULL, "nothing was opened");
}

static void test_header(void)
{
  rg_safetensors *file;

  put(two, 19);
  file = opened();
  is_int(file->n, 2, "two tensors");
  is_int(file->n_notes, 1, "a note that is a text");
  ok(memcmp(file->notes[1].data, "me", 2) == 0, "its text");
  ok(file->entries[0].name.data[0] == 'a' && file->entries[1].name.data[0] == 'b',
     "in the order of their places");
  is_int(file->entries[1].ndim, 2, "its axes");
  is_int(file->entries[1].at, (int64_t)sizeof(two) - 1 + 8 + 3, "its place in the file");
  rg_safetensors_release(file);
  rg_safetensors_release(NULL);
  is_status(rg_safetensors_open(NULL, &file), RG_EARG, "no path");
  is_status(rg_safetensors_open("/nothing/there", &file), RG_EIO, "no file");
  is_status(rg_safetensors_open("/tmp", &file), RG_EFORMAT, "a folder");
}

static void test_ends(void)
{
  rg_safetensors *file = NULL;
  int64_t bytes = (int64_t)sizeof(two) - 1 + 8 + 19;
  bool all = true;

  for (int64_t n = bytes - 1; n >= 0; n--) {
    put(two, 19);
    all = all && truncate(path, n) == 0 && rg_safetensors_open(path, &file) == RG_EFORMAT &&
          strstr(rg_error_message(), "is cut off") != NULL;
  }
  ok(all, "cut off anywhere it is refused");
}

static void test_lies(void)
{
  refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,6]}}",
          6, "has \"a\" twice");
  refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}",
          5, "a gap or an overlap before \"b\"");
  refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", 4, "a gap");
  refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 4, "1 bytes behind");
  refused("{\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
          "\"a\" is of type I16");
  refused("{\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,3]}}", 3,
          "not that of its shape");
  /* bits that wrap around to those of the place */
  refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[288230376151711744],\"data_offsets\":[0,0]}}", 0,
          "not that of its shape");
  refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[288230376151711745],\"data_offsets\":[0,8]}}", 8,
          "not that of its shape");
  refused("[]", 0, "its header is no JSON");
}

/* How many times the file is in this process's memory. */
static int n_mapped(void)
{
  char line[512];
  int n = 0;
  FILE *f = fopen("/proc/self/maps", "r");

  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    n += strstr(line, path) != NULL;
  }
  if (f != NULL) {
    (void)fclose(f);
  }
  return n;
}

static void test_tensors(void)
{
  const float *data;
  rg_safetensors *file;
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  int64_t live = rg_live_tensors();
  float back[4];

  put(two, 19);
  file = opened();
  is_status(rg_safetensors_tensor(file, 2, RG_SAFETENSORS_NOW, &x), RG_EARG, "no third one");
  is_status(rg_safetensors_tensor(file, 0, 7, &x), RG_EARG, "no such way");
  is_status(rg_safetensors_tensor(file, 1, RG_SAFETENSORS_NOW, &x), RG_OK, "at once");
  is_status(rg_safetensors_tensor(file, 1, RG_SAFETENSORS_LATER, &y), RG_OK, "later");
  is_int(rg_tensor_is_later(x), 0, "it is there");
  is_int(rg_tensor_is_later(y), 1, "it is to come");
  is_int(rg_tensor_bytes(y), 16, "its bytes are known");
  rg_safetensors_release(file);
  is_status(rg_tensor_read(y, back, 16), RG_OK, "it is used");
  is_int(rg_tensor_is_later(y), 0, "it came");
  ok(memcmp(x->_data, back, 16) == 0, "the same bytes");
  rg_tensor_release(x);
  rg_tensor_release(y);

  file = opened();
  is_status(rg_safetensors_tensor(file, 1, RG_SAFETENSORS_MAPPED, &x), RG_OK, "as pages");
  is_status(rg_safetensors_tensor(file, 0, RG_SAFETENSORS_MAPPED, &y), RG_OK, "of another type");
  is_int(rg_tensor_is_later(x), 1, "not where its type wants it: it is copied when it is used");
  is_int(rg_tensor_is_later(y), 0, "the other is mapped");
  is_status(rg_tensor_read(x, back, 16), RG_OK, "now it is");
  data = x->_data;
  ok((uintptr_t)data % 4 == 0, "as its type wants it");
  rg_safetensors_release(file);
  is_int(n_mapped(), 1, "the file stays mapped for who looks into it");
  ok(memcmp(data, back, 16) == 0, "the same bytes");
  ((uint8_t *)y->_data)[0] = 9; /* stays here */
  rg_tensor_release(x);
  rg_tensor_release(y);
  is_int(n_mapped(), 0, "and no longer");
  file = opened();
  is_status(rg_safetensors_tensor(file, 0, RG_SAFETENSORS_NOW, &x), RG_OK, "the file");
  is_int(((uint8_t *)x->_data)[0], 0, "is what it was");
  rg_tensor_release(x);
  rg_safetensors_release(file);
  is_int(rg_live_tensors(), live, "nothing is left");
}

/* A tensor that was never used goes without being read. */
static void test_unused(void)
{
  rg_safetensors *file;
  rg_tensor *x = NULL;

  put(two, 19);
  file = opened();
  is_status(rg_safetensors_tensor(file, 1, RG_SAFETENSORS_LATER, &x), RG_OK, "later");
  rg_safetensors_release(file);
  is_int(truncate(path, 20), 0, "the file is cut");
  is_status(rg_tensor_read(x, NULL, 16), RG_EFORMAT, "then it is an error");
  ok(strstr(rg_error_message(), "\"b\" cannot be read out of") != NULL, rg_error_message());
  is_int(rg_tensor_is_later(x), 1, "and still to come");
  rg_tensor_drop(x);
  is_status(rg_tensor_read(x, NULL, 16), RG_ERELEASED, "dropped it is gone");
  rg_tensor_release(x);
}

/* Bytes of the same number are other weights. */
static void test_changed(void)
{
  const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
  rg_safetensors *file;
  rg_tensor *x = NULL;
  float back[4];

  put(two, 19);
  file = opened();
  is_status(rg_safetensors_tensor(file, 1, RG_SAFETENSORS_LATER, &x), RG_OK, "later");
  put(two, 19);
  is_int(utimensat(AT_FDCWD, path, past, 0), 0, "written again, at another time");
  is_status(rg_tensor_read(x, back, 16), RG_EFORMAT, "it is refused");
  ok(strstr(rg_error_message(), "it was changed since it was opened") != NULL, rg_error_message());
  is_status(rg_safetensors_tensor(file, 0, RG_SAFETENSORS_NOW, &x), RG_EFORMAT, "at once, too");
  rg_tensor_release(x);
  rg_safetensors_release(file);
}

static pthread_barrier_t start;

enum { LARGE = 1 << 22 }; /* bytes: reading them takes longer than the two threads are apart */

static void *use(void *given)
{
  rg_tensor *x = given;
  char *back = malloc(LARGE);
  bool same;

  (void)pthread_barrier_wait(&start);
  same = back != NULL && rg_tensor_read(x, back, LARGE) == RG_OK && back[0] == 0 &&
         memcmp(x->_data, back, LARGE) == 0;
  free(back);
  return same ? x : NULL;
}

static void test_threads(void)
{
  static const char one[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4194304],"
                            "\"data_offsets\":[0,4194304]}}";
  int64_t live = rg_memory_of(0)->live_bytes;
  bool same = true;

  put(one, 1);
  is_int(truncate(path, (off_t)sizeof(one) - 1 + 8 + LARGE), 0, "a hole in a file");
  (void)pthread_barrier_init(&start, NULL, 2);
  for (int i = 0; i < 20; i++) {
    pthread_t other;
    rg_safetensors *file = NULL;
    rg_tensor *x = NULL;
    void *there = NULL;

    same = same && rg_safetensors_open(path, &file) == RG_OK &&
           rg_safetensors_tensor(file, 0, RG_SAFETENSORS_LATER, &x) == RG_OK;
    rg_safetensors_release(file);
    same = same && pthread_create(&other, NULL, use, x) == 0;
    same = same && use(x) == x && pthread_join(other, &there) == 0 && there == x;
    rg_tensor_release(x);
  }
  ok(same, "two threads use it at once");
  is_int(rg_memory_of(0)->live_bytes, live, "and it came once each time");
  (void)pthread_barrier_destroy(&start);
}

static void test_index(void)
{
  static const char index[] = "{\"weight_map\":{\"a\":\"one\",\"b\":\"two\"},\"metadata\":{}}";
  rg_safetensors *file = NULL;
  FILE *f = fopen(path, "wb");

  (void)fputs(index, f);
  (void)fclose(f);
  is_status(rg_safetensors_index(path, &file), RG_OK, "an index");
  is_int(file->n, 0, "has no tensors");
  is_int(file->n_notes, 2, "and two names");
  rg_safetensors_release(file);
}

int main(void)
{
  int file;

  snprintf(path, sizeof(path), "/tmp/ridge_safetensors_XXXXXX");
  file = mkstemp(path);
  if (file < 0) {
    return 1;
  }
  (void)close(file);
  test_header();
  test_ends();
  test_lies();
  test_tensors();
  test_unused();
  test_changed();
  test_threads();
  test_index();
  (void)unlink(path);
  return done();
}
