/* SPDX-License-Identifier: MIT */
/*
** ONNX files: protobuf's wire format, read where it lies and written, for the messages of ONNX.
**
** Nothing is copied by reading: what a reader tells points into the bytes it was given.
*/
#ifndef RIDGE_ONNX_H
#define RIDGE_ONNX_H

#include "ridge/tensor.h"

/* How the value of a field is stored; a list of a kind may be packed. */
enum {
  RG_ONNX_INT,     /* int64_t, as a varint */
  RG_ONNX_FLOAT,   /* 4 bytes */
  RG_ONNX_DOUBLE,  /* 8 bytes */
  RG_ONNX_TEXT,    /* bytes with their length */
  RG_ONNX_MESSAGE, /* the same; in them fields of another message */
  RG_ONNX_KIND_COUNT
};

/* clang-format off */

/* The messages of ONNX, by the names of the specification without "Proto". */
#define RG_ONNX_MESSAGE_LIST(X) \
  X(model) X(graph) X(node) X(attribute) X(value) X(type) X(tensor_type) X(sequence_type) \
  X(map_type) X(optional_type) X(sparse_type) X(opaque_type) X(shape) X(dimension) X(tensor) \
  X(segment) X(sparse_tensor) X(entry) X(opset) X(function) X(other)

/*
** Their fields: message, name, number in the file, kind, message of the value (other: none, or one
** that is passed over), 1 for a list.  After the text of onnx/onnx.proto3, IR version 13.
*/
#define RG_ONNX_FIELD_LIST(X)                                  \
  X(model, ir_version, 1, INT, other, 0)                       \
  X(model, producer_name, 2, TEXT, other, 0)                   \
  X(model, producer_version, 3, TEXT, other, 0)                \
  X(model, domain, 4, TEXT, other, 0)                          \
  X(model, model_version, 5, INT, other, 0)                    \
  X(model, doc_string, 6, TEXT, other, 0)                      \
  X(model, graph, 7, MESSAGE, graph, 0)                        \
  X(model, opset_import, 8, MESSAGE, opset, 1)                 \
  X(model, metadata_props, 14, MESSAGE, entry, 1)              \
  X(model, training_info, 20, MESSAGE, other, 1)               \
  X(model, functions, 25, MESSAGE, function, 1)                \
  X(graph, node, 1, MESSAGE, node, 1)                          \
  X(graph, name, 2, TEXT, other, 0)                            \
  X(graph, initializer, 5, MESSAGE, tensor, 1)                 \
  X(graph, doc_string, 10, TEXT, other, 0)                     \
  X(graph, input, 11, MESSAGE, value, 1)                       \
  X(graph, output, 12, MESSAGE, value, 1)                      \
  X(graph, value_info, 13, MESSAGE, value, 1)                  \
  X(graph, quantization_annotation, 14, MESSAGE, other, 1)     \
  X(graph, sparse_initializer, 15, MESSAGE, sparse_tensor, 1)  \
  X(graph, metadata_props, 16, MESSAGE, entry, 1)              \
  X(node, input, 1, TEXT, other, 1)                            \
  X(node, output, 2, TEXT, other, 1)                           \
  X(node, name, 3, TEXT, other, 0)                             \
  X(node, op_type, 4, TEXT, other, 0)                          \
  X(node, attribute, 5, MESSAGE, attribute, 1)                 \
  X(node, doc_string, 6, TEXT, other, 0)                       \
  X(node, domain, 7, TEXT, other, 0)                           \
  X(node, overload, 8, TEXT, other, 0)                         \
  X(node, metadata_props, 9, MESSAGE, entry, 1)                \
  X(attribute, name, 1, TEXT, other, 0)                        \
  X(attribute, f, 2, FLOAT, other, 0)                          \
  X(attribute, i, 3, INT, other, 0)                            \
  X(attribute, s, 4, TEXT, other, 0)                           \
  X(attribute, t, 5, MESSAGE, tensor, 0)                       \
  X(attribute, g, 6, MESSAGE, graph, 0)                        \
  X(attribute, floats, 7, FLOAT, other, 1)                     \
  X(attribute, ints, 8, INT, other, 1)                         \
  X(attribute, strings, 9, TEXT, other, 1)                     \
  X(attribute, tensors, 10, MESSAGE, tensor, 1)                \
  X(attribute, graphs, 11, MESSAGE, graph, 1)                  \
  X(attribute, doc_string, 13, TEXT, other, 0)                 \
  X(attribute, tp, 14, MESSAGE, type, 0)                       \
  X(attribute, type_protos, 15, MESSAGE, type, 1)              \
  X(attribute, type, 20, INT, other, 0)                        \
  X(attribute, ref_attr_name, 21, TEXT, other, 0)              \
  X(attribute, sparse_tensor, 22, MESSAGE, sparse_tensor, 0)   \
  X(attribute, sparse_tensors, 23, MESSAGE, sparse_tensor, 1)  \
  X(value, name, 1, TEXT, other, 0)                            \
  X(value, type, 2, MESSAGE, type, 0)                          \
  X(value, doc_string, 3, TEXT, other, 0)                      \
  X(value, metadata_props, 4, MESSAGE, entry, 1)               \
  X(type, tensor_type, 1, MESSAGE, tensor_type, 0)             \
  X(type, sequence_type, 4, MESSAGE, sequence_type, 0)         \
  X(type, map_type, 5, MESSAGE, map_type, 0)                   \
  X(type, denotation, 6, TEXT, other, 0)                       \
  X(type, opaque_type, 7, MESSAGE, opaque_type, 0)             \
  X(type, sparse_tensor_type, 8, MESSAGE, sparse_type, 0)      \
  X(type, optional_type, 9, MESSAGE, optional_type, 0)         \
  X(tensor_type, elem_type, 1, INT, other, 0)                  \
  X(tensor_type, shape, 2, MESSAGE, shape, 0)                  \
  X(sequence_type, elem_type, 1, MESSAGE, type, 0)             \
  X(map_type, key_type, 1, INT, other, 0)                      \
  X(map_type, value_type, 2, MESSAGE, type, 0)                 \
  X(optional_type, elem_type, 1, MESSAGE, type, 0)             \
  X(sparse_type, elem_type, 1, INT, other, 0)                  \
  X(sparse_type, shape, 2, MESSAGE, shape, 0)                  \
  X(opaque_type, domain, 1, TEXT, other, 0)                    \
  X(opaque_type, name, 2, TEXT, other, 0)                      \
  X(shape, dim, 1, MESSAGE, dimension, 1)                      \
  X(dimension, dim_value, 1, INT, other, 0)                    \
  X(dimension, dim_param, 2, TEXT, other, 0)                   \
  X(dimension, denotation, 3, TEXT, other, 0)                  \
  X(tensor, dims, 1, INT, other, 1)                            \
  X(tensor, data_type, 2, INT, other, 0)                       \
  X(tensor, segment, 3, MESSAGE, segment, 0)                   \
  X(tensor, float_data, 4, FLOAT, other, 1)                    \
  X(tensor, int32_data, 5, INT, other, 1)                      \
  X(tensor, string_data, 6, TEXT, other, 1)                    \
  X(tensor, int64_data, 7, INT, other, 1)                      \
  X(tensor, name, 8, TEXT, other, 0)                           \
  X(tensor, raw_data, 9, TEXT, other, 0)                       \
  X(tensor, double_data, 10, DOUBLE, other, 1)                 \
  X(tensor, uint64_data, 11, INT, other, 1)                    \
  X(tensor, doc_string, 12, TEXT, other, 0)                    \
  X(tensor, external_data, 13, MESSAGE, entry, 1)              \
  X(tensor, data_location, 14, INT, other, 0)                  \
  X(tensor, metadata_props, 16, MESSAGE, entry, 1)             \
  X(segment, begin, 1, INT, other, 0)                          \
  X(segment, end, 2, INT, other, 0)                            \
  X(sparse_tensor, values, 1, MESSAGE, tensor, 0)              \
  X(sparse_tensor, indices, 2, MESSAGE, tensor, 0)             \
  X(sparse_tensor, dims, 3, INT, other, 1)                     \
  X(entry, key, 1, TEXT, other, 0)                             \
  X(entry, value, 2, TEXT, other, 0)                           \
  X(opset, domain, 1, TEXT, other, 0)                          \
  X(opset, version, 2, INT, other, 0)                          \
  X(function, name, 1, TEXT, other, 0)                         \
  X(function, input, 4, TEXT, other, 1)                        \
  X(function, output, 5, TEXT, other, 1)                       \
  X(function, attribute, 6, TEXT, other, 1)                    \
  X(function, node, 7, MESSAGE, node, 1)                       \
  X(function, doc_string, 8, TEXT, other, 0)                   \
  X(function, opset_import, 9, MESSAGE, opset, 1)              \
  X(function, domain, 10, TEXT, other, 0)                      \
  X(function, attribute_proto, 11, MESSAGE, attribute, 1)      \
  X(function, value_info, 12, MESSAGE, value, 1)               \
  X(function, overload, 13, TEXT, other, 0)                    \
  X(function, metadata_props, 14, MESSAGE, entry, 1)

/*
** Element types: name (ridge's where ridge has it), number in the file, bits of an element, type of
** ridge that its values are read as, how: SAME bytes, or WIDE, each converted; NONE: not at all.
*/
#define RG_ONNX_TYPE_LIST(X)                  \
  X(f32, 1, 32, RG_F32, SAME)                 \
  X(u8, 2, 8, RG_U8, SAME)                    \
  X(i8, 3, 8, RG_I8, SAME)                    \
  X(u16, 4, 16, RG_I64, WIDE)                 \
  X(i16, 5, 16, RG_I64, WIDE)                 \
  X(i32, 6, 32, RG_I32, SAME)                 \
  X(i64, 7, 64, RG_I64, SAME)                 \
  X(string, 8, 0, RG_DTYPE_COUNT, NONE)       \
  X(bool, 9, 8, RG_BOOL, WIDE)                \
  X(f16, 10, 16, RG_F16, SAME)                \
  X(f64, 11, 64, RG_F64, SAME)                \
  X(u32, 12, 32, RG_I64, WIDE)                \
  X(u64, 13, 64, RG_I64, WIDE)                \
  X(complex64, 14, 64, RG_DTYPE_COUNT, NONE)  \
  X(complex128, 15, 128, RG_DTYPE_COUNT, NONE) \
  X(bf16, 16, 16, RG_BF16, SAME)              \
  X(f8e4m3, 17, 8, RG_F8E4M3, SAME)           \
  X(f8e4m3fnuz, 18, 8, RG_DTYPE_COUNT, NONE)  \
  X(f8e5m2, 19, 8, RG_F8E5M2, SAME)           \
  X(f8e5m2fnuz, 20, 8, RG_DTYPE_COUNT, NONE)  \
  X(u4, 21, 4, RG_U8, WIDE)                   \
  X(i4, 22, 4, RG_I8, WIDE)                   \
  X(f4e2m1, 23, 4, RG_DTYPE_COUNT, NONE)      \
  X(f8e8m0, 24, 8, RG_DTYPE_COUNT, NONE)      \
  X(u2, 25, 2, RG_U8, WIDE)                   \
  X(i2, 26, 2, RG_I8, WIDE)
/* clang-format on */

#define RG_ONNX_MESSAGE_ENUM(name) RG_ONNX_##name,
enum { RG_ONNX_MESSAGE_LIST(RG_ONNX_MESSAGE_ENUM) RG_ONNX_MESSAGE_COUNT };

#define RG_ONNX_FIELD_ENUM(message, name, ...) RG_ONNX_##message##_##name,
enum { RG_ONNX_FIELD_LIST(RG_ONNX_FIELD_ENUM) RG_ONNX_FIELD_COUNT };

/* A field as a row of the list. */
typedef struct rg_onnx_field {
  const char *name;
  int32_t message; /* RG_ONNX_model ...: whose field it is */
  int32_t number;
  int32_t kind;  /* RG_ONNX_INT ... */
  int32_t value; /* message of its values */
  int32_t list;  /* 1: any number of values */
  int32_t _pad;
} rg_onnx_field;

/* field: RG_ONNX_model_graph ...; NULL for a number that is none. */
RG_API const rg_onnx_field *rg_onnx_field_of(int32_t field);

/* "graph"; "?" for a number that is none.  message: RG_ONNX_graph ... */
RG_API const char *rg_onnx_message_name(int32_t message);

/* An element type of a file. */
typedef struct rg_onnx_type {
  const char *name;
  int32_t bits;  /* of an element; 0: it varies */
  int32_t dtype; /* type of ridge that values are read as; RG_DTYPE_COUNT: none */
  int32_t wide;  /* 1: its bytes are others */
  int32_t _pad;
} rg_onnx_type;

/* number: in the file; NULL for one that is none. */
RG_API const rg_onnx_type *rg_onnx_type_of(int32_t number);

/* -- Reading --------------------------------------------------------------------------- */

/* A place in a message. */
typedef struct rg_onnx_cursor {
  const char *start; /* of the file: what errors count bytes from */
  int64_t at;        /* of the next field */
  int64_t end;       /* of the message */
  int32_t message;   /* RG_ONNX_model ... */
  int32_t _pad;
} rg_onnx_cursor;

/* A field of a message. */
typedef struct rg_onnx_item {
  const char *data; /* text, message, packed numbers; else NULL.  Borrowed from the file */
  int64_t bytes;    /* of it */
  int64_t at;       /* of data in the file */
  int64_t whole;    /* an INT */
  double real;      /* a FLOAT or DOUBLE */
  int32_t field;    /* RG_ONNX_model_graph ...; -1: the last field was before */
  int32_t packed;   /* 1: data holds numbers, which rg_onnx_unpack tells */
} rg_onnx_item;

/*
** Read the next field of a message that the list has; others are passed over.
**
** cursor   moved behind it
** out      filled
** RG_EFORMAT: cut off, a length beyond the end of the message, a tag that is none, another kind.
*/
RG_API rg_status rg_onnx_next(rg_onnx_cursor *cursor, rg_onnx_item *out) RG_CHECK;

/*
** Read the next of packed numbers.
**
** item     of rg_onnx_next; its data, bytes and at move on, whole or real is the number
** RG_EFORMAT: cut off.  RG_EARG behind the last one (bytes is 0).
*/
RG_API rg_status rg_onnx_unpack(rg_onnx_item *item) RG_CHECK;

/* More axes than any tensor has that is worth reading. */
enum { RG_ONNX_MAX_DIMS = 16 };

/* A tensor of a file: where its elements are. */
typedef struct rg_onnx_tensor {
  int64_t dims[16];
  int64_t count;        /* elements, by dims */
  int64_t there;        /* elements that the message holds; -1: in another file */
  int64_t raw_at;       /* of raw_data in the file; -1: there is none */
  int64_t raw_bytes;    /* of it, or of what the other file has to hold */
  const char *name;     /* borrowed, as location */
  const char *location; /* name of the other file; NULL: none */
  int64_t name_bytes;
  int64_t location_bytes;
  int64_t external_at;    /* of its elements in the other file */
  int64_t external_bytes; /* -1: as many as it takes */
  int32_t type;           /* number in the file (rg_onnx_type_of) */
  int32_t ndim;
} rg_onnx_tensor;

/*
** What a tensor's message says, checked: that as many elements are there as its dims say.
**
** start    of the file
** at       of the message in it
** bytes    of the message
** out      filled
** RG_EFORMAT: damaged, or too few or too many elements.
*/
RG_API rg_status rg_onnx_tensor_of(const char *start, int64_t at, int64_t bytes,
                                   rg_onnx_tensor *out) RG_CHECK;

/*
** A tensor with the elements that are in its message.
**
** start    of the file, which is mapped
** file     its descriptor: raw_data is read from it straight into out, not through the mapping
** at       of the tensor's message
** bytes    of it
** out      new reference, on the CPU, of the type that rg_onnx_type_of tells
** RG_EDTYPE: ridge has no type for them.  RG_EFORMAT, RG_EIO: the file became shorter.  RG_ESHAPE,
** RG_ENOMEM, RG_EINTR.
*/
RG_API rg_status rg_onnx_tensor_read(const char *start, int32_t file, int64_t at, int64_t bytes,
                                     rg_tensor **out) RG_CHECK;

/*
** Open a file that holds elements, beside the model and nowhere else.
**
** folder   of the model
** location path below it: neither absolute nor with "..", and no part of it a link
** bytes    out: of the file
** file     out: descriptor, to be closed with rg_onnx_close
** RG_EFORMAT: a path that is refused.  RG_EIO.
*/
RG_API rg_status rg_onnx_open(const char *folder, const char *location, int64_t *bytes,
                              int32_t *file) RG_CHECK;
RG_API void rg_onnx_close(int32_t file);

/*
** A tensor with elements that lie in such a file.
**
** file     of rg_onnx_open
** t        of rg_onnx_tensor_of
** out      as of rg_onnx_tensor_read
** RG_EDTYPE, RG_EFORMAT, RG_EIO, RG_ESHAPE, RG_ENOMEM, RG_EINTR.
*/
RG_API rg_status rg_onnx_external_read(int32_t file, const rg_onnx_tensor *t,
                                       rg_tensor **out) RG_CHECK;

/* -- Writing --------------------------------------------------------------------------- */

/* Messages that are being written; elements of tensors are not copied into it: it counts them, and
** whoever writes the file puts them where they belong. */
typedef struct rg_onnx_writer rg_onnx_writer;

/* out: to be released.  RG_ENOMEM. */
RG_API rg_status rg_onnx_writer_new(rg_onnx_writer **out) RG_CHECK;
RG_API void rg_onnx_writer_release(rg_onnx_writer *writer);

/* Begin the message that is the value of a field of the open one (the first is a model).  writer:
** at most 64 are open; field: RG_ONNX_model_graph ... of kind MESSAGE.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_begin(rg_onnx_writer *writer, int32_t field) RG_CHECK;

/* End it.  writer: it is the last one begun that has not ended.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_end(rg_onnx_writer *writer) RG_CHECK;

/* Write a field of the open message.  writer: as above; field: of kind INT; value: the number.
** RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_put_int(rg_onnx_writer *writer, int32_t field, int64_t value) RG_CHECK;

/* The same of kind FLOAT.  writer, field, value.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_put_float(rg_onnx_writer *writer, int32_t field, float value) RG_CHECK;

/* The same of kind TEXT or MESSAGE.  writer, field; text: bytes of it, copied.  RG_EARG,
** RG_ENOMEM. */
RG_API rg_status rg_onnx_put_text(rg_onnx_writer *writer, int32_t field, const char *text,
                                  int64_t bytes) RG_CHECK;

/* All fields of the open message, as another file has them.  writer; data: bytes of them, copied.
** RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_put_message(rg_onnx_writer *writer, const char *data,
                                     int64_t bytes) RG_CHECK;

/* A list of kind INT, packed.  writer, field; values: n of them.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_put_ints(rg_onnx_writer *writer, int32_t field, const int64_t *values,
                                  int64_t n) RG_CHECK;

/* A list of kind FLOAT, packed.  writer, field; values: n of them.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_onnx_put_floats(rg_onnx_writer *writer, int32_t field, const float *values,
                                    int64_t n) RG_CHECK;

/* A field of kind TEXT whose bytes somebody else writes.  writer, field; bytes: how many.  RG_EARG,
** RG_ENOMEM. */
RG_API rg_status rg_onnx_put_gap(rg_onnx_writer *writer, int32_t field, int64_t bytes) RG_CHECK;

/* What was written, with gaps. */
typedef struct rg_onnx_written {
  const char *data;
  const int64_t *gaps; /* for each, how many bytes of data stand before it */
  int64_t bytes;       /* of data */
  int64_t whole;       /* the same with all gaps */
  int32_t n_gaps;
  int32_t n_open; /* messages that have not ended */
} rg_onnx_written;

/* out: filled; borrowed until something more is written.  writer: any. */
RG_API void rg_onnx_written_of(const rg_onnx_writer *writer, rg_onnx_written *out);

#endif
