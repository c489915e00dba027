-- SPDX-License-Identifier: MIT
--- ONNX files as Lua tables: what a model says, without its weights, which stay in the file until
--- somebody asks for them.
--
-- The wire format is read in C (core/io), message by message; here each becomes a table. What a
-- damaged file could make large or deep is bounded here: how many tables, and how many in each
-- other.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local check = require 'ridge.onnx.check'
require 'ridge.tensor'
local dtype = require 'ridge.tensor.dtype'
local fields = require 'ridge.onnx.fields'

local M = {}

--- The newest operators that are read (ai.onnx).
M.NEWEST = 24

local DEEPEST = 64         -- messages in each other: 21 graphs
local FEWEST = 65536       -- nodes, attributes, values, tensors that any file may have
local BYTES_EACH = 32      -- and one for each so many of its bytes
local LONGEST = 2 ^ 30     -- bytes of a text
local EXACT = 2 ^ 53

local F, M_OF = fields.field, fields.message
local cursor_t, item_t = ffi.typeof 'rg_onnx_cursor', ffi.typeof 'rg_onnx_item'
local tensor_t = ffi.typeof 'rg_onnx_tensor'
local map_slot = ffi.new 'rg_map *[1]'

local function wrong(s, text, ...)
  blame.raise(('%s: %s: %s'):format(s.what, s.path, (text:format(...):gsub('%c', ' '))),
    'EFORMAT', s.what)
end

-- What C said of a file.
local function raise(what, path, status)
  blame.raise(('%s: %s: %s'):format(what, path,
    (ffi.string(C.rg_error_message()):gsub('%c', ' '))), call.code(status), what)
end

local function must(s, status)
  if status ~= 0 then raise(s.what, s.path, status) end
end

-- One table more.
local function count(s)
  s.left = s.left - 1
  if s.left < 0 then
    wrong(s, 'it has more than %d nodes, attributes, values and tensors, too many for %d bytes',
      s.most, s.bytes)
  end
  if s.left % 4096 == 0 then call.look(s.what) end
end

local function whole(x)
  local n = tonumber(x)
  return n > -EXACT and n < EXACT and n or ffi.new('int64_t', x)
end

-- -- Messages -----------------------------------------------------------------------------------

-- What becomes of each field, by message and field.
local TAKE = {}

-- The fields of a message, which lies in the file at `at`, into a table.
local function read(s, message, at, bytes, into)
  if s.depth == DEEPEST then
    wrong(s, 'byte %d: more than %d messages in each other', tonumber(at), DEEPEST)
  end
  s.depth = s.depth + 1
  local cursor = cursor_t(s.start, at, at + bytes, message)
  local item = item_t()
  local take = TAKE[message]
  while true do
    must(s, C.rg_onnx_next(cursor, item))
    if item.field < 0 then break end
    local f = take[item.field]
    if f then f(into, item, s) end
  end
  s.depth = s.depth - 1
  return into
end

local function text_of(item, s)
  if item.bytes > LONGEST then
    wrong(s, 'byte %d: a text of %d bytes', tonumber(item.at), tonumber(item.bytes))
  end
  return ffi.string(item.data, item.bytes)
end

-- -- Kinds of fields

local function text(key)
  return function(into, item, s) into[key] = text_of(item, s) end
end

local function texts(key)
  return function(into, item, s)
    local list = into[key] or {}
    into[key] = list
    list[#list + 1] = text_of(item, s)
  end
end

local function int(key)
  return function(into, item) into[key] = whole(item.whole) end
end

local function message(key, kind, make)
  return function(into, item, s)
    if into[key] ~= nil then
      wrong(s, 'byte %d: %s is given twice', tonumber(item.at), key)
    end
    into[key] = make and make(s, item.at, item.bytes)
      or read(s, M_OF[kind], item.at, item.bytes, {})
  end
end

local function messages(key, make)
  return function(into, item, s)
    count(s)
    local list = into[key] or {}
    into[key] = list
    list[#list + 1] = make(s, item.at, item.bytes)
  end
end

-- Numbers, packed or one by one.
local function numbers(key, member)
  return function(into, item, s)
    local list = into[key] or {}
    into[key] = list
    local n = #list
    if item.packed == 0 then
      list[n + 1] = member == 'whole' and whole(item.whole) or item.real
      return
    end
    while item.bytes > 0 do
      must(s, C.rg_onnx_unpack(item))
      n = n + 1
      list[n] = member == 'whole' and whole(item.whole) or item.real
    end
  end
end

-- -- Tensors ------------------------------------------------------------------------------------

local function type_name(number)
  local facts = C.rg_onnx_type_of(number)
  return facts ~= nil and ffi.string(facts.name) or nil
end

local function make_tensor(s, at, bytes)
  local t = tensor_t()
  must(s, C.rg_onnx_tensor_of(s.start, at, bytes, t))
  local shape = {}
  for i = 1, t.ndim do shape[i] = tonumber(t.dims[i - 1]) end
  local out = { name = t.name ~= nil and ffi.string(t.name, t.name_bytes) or '',
    type = type_name(t.type), shape = shape, bytes = tonumber(t.raw_bytes),
    _file = s.file, _at = tonumber(at), _bytes = tonumber(bytes) }
  if t.there < 0 then
    out.external = { location = ffi.string(t.location, t.location_bytes),
      at = tonumber(t.external_at), bytes = tonumber(t.raw_bytes) }
  elseif t.raw_at < 0 then -- in a list: what it would take
    out.bytes = tonumber(t.count) * C.rg_onnx_type_of(t.type).bits / 8
  end
  return out
end

-- The file that a tensor's elements are in, below the model's folder; opened once.
local function external(t, what)
  local file = t._file
  local location = t.external.location
  local open = file.opened[location]
  if not open then
    if location:find '%z' then
      blame.raise(('%s: %s: external data has no path'):format(what, file.path), 'EFORMAT', what)
    end
    local bytes, fd = ffi.new 'int64_t[1]', ffi.new 'int32_t[1]'
    local status = C.rg_onnx_open(file.folder, location, bytes, fd)
    if status ~= 0 then raise(what, file.path, status) end
    open = { fd = fd[0], bytes = tonumber(bytes[0]), proxy = newproxy(true) }
    getmetatable(open.proxy).__gc = function() C.rg_onnx_close(fd[0]) end
    file.opened[location] = open
  end
  if t.external.at + t.external.bytes > open.bytes then
    blame.raise(('%s: %s: tensor %s is at bytes %d to %d of %s, which has %d'):format(what,
      file.path, blame.show(t.name), t.external.at, t.external.at + t.external.bytes, location,
      open.bytes), 'EFORMAT', what)
  end
  return open
end

--- The elements of a tensor of a file, as a new tensor on the CPU.
---@param t table a tensor of file.read
---@param what string|nil the function the user called
---@return Tensor of the type that ridge reads them as: u16, i16, u32 and u64 as i64, smaller than a
---  byte as u8 or i8
-- Raises EDTYPE for types that ridge has not: strings, complex numbers.
function M.tensor(t, what)
  what = what or 'onnx.tensor'
  if t.value then return t.value end
  local file = t._file
  call.settle()
  local status
  if t.external then
    local facts = tensor_t()
    status = C.rg_onnx_tensor_of(file.map._data, t._at, t._bytes, facts)
    if status == 0 then
      status = C.rg_onnx_external_read(external(t, what).fd, facts, ref.slot)
    end
  else
    status = C.rg_onnx_tensor_read(file.map._data, file.map._file, t._at, t._bytes, ref.slot)
  end
  if status ~= 0 then
    blame.raise(('%s: %s: tensor %s: %s'):format(what, file.path, blame.show(t.name),
      (ffi.string(C.rg_error_message()):gsub('^[%w_.]+: ', ''))), call.code(status), what)
  end
  return ref.wrap(ref.slot[0])
end

-- -- Types --------------------------------------------------------------------------------------

local function make_dimension(s, at, bytes)
  local d = read(s, M_OF.dimension, at, bytes, {})
  if d.size then
    return type(d.size) == 'number' and d.size >= 0 and d.size
  end
  return d.name and d.name ~= '' and d.name
end

local function make_shape(s, at, bytes)
  return read(s, M_OF.shape, at, bytes, {})
end

-- A type: { type = 'f32', shape = ... } or { type = 'sequence', of = the same }.
local function make_type(s, at, bytes)
  local t = read(s, M_OF.type, at, bytes, {})
  for _, kind in ipairs { 'sequence', 'optional', 'map' } do
    local inner = t[kind]
    if inner then return { type = kind, of = inner.of, key = inner.key } end
  end
  local tensor = t.tensor or t.sparse
  if tensor then
    return { type = type_name(tensor.number or 0), shape = tensor.shape,
      sparse = t.sparse and true or nil }
  end
  return { type = t.opaque and 'opaque' or nil }
end

local function make_value(s, at, bytes)
  local v = read(s, M_OF.value, at, bytes, { name = '' })
  local t = v.of or {}
  return { name = v.name, type = t.type, shape = t.shape, of = t.of, key = t.key,
    sparse = t.sparse }
end

-- -- Nodes --------------------------------------------------------------------------------------

local make_graph -- below: graphs hold attributes, which hold graphs

-- The kinds of attributes in the order of their numbers, and where the value of each is.
local ATTRIBUTE = fields.ATTRIBUTE

local function make_attribute(s, at, bytes)
  local a = read(s, M_OF.attribute, at, bytes, { name = '' })
  local kind = a.number and ATTRIBUTE[a.number]
  if a.number and a.number ~= 0 and not kind then
    wrong(s, 'attribute %s is of type %s, which is none', blame.show(a.name), tostring(a.number))
  end
  if not kind and not a.ref then -- files of the first versions: what is there says it
    for _, k in ipairs(ATTRIBUTE) do
      if a[k] ~= nil then kind = k end
    end
    if not kind then wrong(s, 'attribute %s has no type and no value', blame.show(a.name)) end
  end
  local value = kind and a[kind]
  if value == nil and not a.ref then
    if kind == 'int' or kind == 'float' then value = 0
    elseif kind == 'string' then value = ''
    elseif kind:find 's$' then value = {}
    else wrong(s, 'attribute %s has no %s', blame.show(a.name), kind) end
  end
  return a.name, { type = kind, value = value, ref = a.ref }
end

local function make_node(s, at, bytes)
  local node = read(s, M_OF.node, at, bytes,
    { domain = '', name = '', inputs = {}, outputs = {}, attributes = {} })
  if node.domain == 'ai.onnx' then node.domain = '' end
  if not node.op or node.op == '' then
    wrong(s, 'byte %d: a node has no operator', tonumber(at))
  end
  return node
end

local function make_sparse(s, at, bytes)
  local t = read(s, M_OF.sparse_tensor, at, bytes, { shape = {} })
  if not t.values or not t.indices then
    wrong(s, 'byte %d: a sparse tensor has no values or no indices', tonumber(at))
  end
  t.name = t.values.name
  return t
end

function make_graph(s, at, bytes)
  count(s)
  return read(s, M_OF.graph, at, bytes, { name = '', nodes = {}, inputs = {}, outputs = {},
    values = {}, initializers = {} })
end

-- -- The model ----------------------------------------------------------------------------------

local function attribute_into(key)
  return function(into, item, s)
    count(s)
    local name, attribute = make_attribute(s, item.at, item.bytes)
    if name == '' or into[key][name] then
      wrong(s, 'byte %d: attribute %s is given twice, or has no name', tonumber(item.at),
        blame.show(name))
    end
    into[key][name] = attribute
  end
end

local function opset_into(into, item, s)
  count(s)
  local o = read(s, M_OF.opset, item.at, item.bytes, { domain = '', version = 1 })
  into.opset[o.domain == 'ai.onnx' and '' or o.domain] = tonumber(o.version)
end

local function entry_into(into, item, s)
  count(s)
  local e = read(s, M_OF.entry, item.at, item.bytes, { key = '', value = '' })
  into.metadata[e.key] = e.value
end

local function make_function(s, at, bytes)
  count(s)
  local f = read(s, M_OF['function'], at, bytes, { name = '', domain = '', inputs = {},
    outputs = {}, attributes = {}, defaults = {}, nodes = {}, opset = {} })
  if f.domain == 'ai.onnx' then f.domain = '' end
  return f
end

local function table_of(name, list)
  local take = {}
  for field, f in pairs(list) do take[F[name][field]] = f end
  TAKE[M_OF[name]] = take
end

table_of('model', { ir_version = int 'ir_version', producer_name = text 'producer',
  producer_version = text 'producer_version', domain = text 'domain',
  model_version = int 'model_version', doc_string = text 'doc',
  graph = message('graph', 'graph', function(...) return make_graph(...) end),
  opset_import = opset_into, metadata_props = entry_into,
  functions = messages('functions', make_function) })
table_of('graph', { node = messages('nodes', make_node), name = text 'name',
  initializer = messages('initializers', make_tensor), doc_string = text 'doc',
  input = messages('inputs', make_value), output = messages('outputs', make_value),
  value_info = messages('values', make_value),
  sparse_initializer = messages('sparse', make_sparse) })
table_of('node', { input = texts 'inputs', output = texts 'outputs', name = text 'name',
  op_type = text 'op', attribute = attribute_into 'attributes', domain = text 'domain',
  overload = text 'overload' })
table_of('attribute', { name = text 'name', type = int 'number', ref_attr_name = text 'ref',
  f = function(into, item) into.float = item.real end, i = int 'int', s = text 'string',
  t = message('tensor', 'tensor', make_tensor),
  g = message('graph', 'graph', function(...) return make_graph(...) end),
  floats = numbers('floats', 'real'), ints = numbers('ints', 'whole'), strings = texts 'strings',
  tensors = messages('tensors', make_tensor),
  graphs = messages('graphs', function(...) return make_graph(...) end),
  tp = message('type_proto', 'type', make_type), type_protos = messages('type_protos', make_type),
  sparse_tensor = message('sparse_tensor', 'sparse_tensor', make_sparse),
  sparse_tensors = messages('sparse_tensors', make_sparse) })
table_of('value', { name = text 'name', type = message('of', 'type', make_type) })
table_of('type', { tensor_type = message('tensor', 'tensor_type'),
  sequence_type = message('sequence', 'sequence_type'), map_type = message('map', 'map_type'),
  opaque_type = message('opaque', 'opaque_type'), optional_type = message('optional',
  'optional_type'), sparse_tensor_type = message('sparse', 'sparse_type') })
table_of('tensor_type', { elem_type = int 'number', shape = message('shape', 'shape', make_shape) })
table_of('sparse_type', { elem_type = int 'number', shape = message('shape', 'shape', make_shape) })
table_of('sequence_type', { elem_type = message('of', 'type', make_type) })
table_of('optional_type', { elem_type = message('of', 'type', make_type) })
table_of('map_type', { key_type = function(into, item) into.key = type_name(item.whole) end,
  value_type = message('of', 'type', make_type) })
table_of('opaque_type', {})
table_of('shape', { dim = function(into, item, s)
  into[#into + 1] = make_dimension(s, item.at, item.bytes) or false
end })
table_of('dimension', { dim_value = int 'size', dim_param = text 'name' })
table_of('sparse_tensor', { values = message('values', 'tensor', make_tensor),
  indices = message('indices', 'tensor', make_tensor), dims = numbers('shape', 'whole') })
table_of('entry', { key = text 'key', value = text 'value' })
table_of('opset', { domain = text 'domain', version = int 'version' })
table_of('function', { name = text 'name', domain = text 'domain', input = texts 'inputs',
  output = texts 'outputs', attribute = texts 'attributes',
  attribute_proto = attribute_into 'defaults', node = messages('nodes', make_node),
  opset_import = opset_into, overload = text 'overload' })

-- -- Files --------------------------------------------------------------------------------------

local function open(path, what)
  if type(path) ~= 'string' or path == '' or path:find '%z' then
    blame.raise(('%s: a path is expected, got %s'):format(what, blame.show(path)), 'EARG', what)
  end
  if C.rg_map_open(path, map_slot) ~= 0 then
    blame.raise(('%s: %s'):format(what, (ffi.string(C.rg_error_message()):gsub('^map: ', ''))),
      'EIO', what)
  end
  local map = ffi.gc(map_slot[0], C.rg_map_release)
  local bytes = tonumber(map._bytes)
  local most = FEWEST + math.floor(bytes / BYTES_EACH)
  local folder = path:match '^(.*/)[^/]*$'
  return { what = what, path = path, start = map._data, bytes = bytes, depth = 0,
    left = most, most = most,
    file = { map = map, path = path, folder = folder or '.', opened = {} } }
end

--- Read an ONNX file, without its weights.
---@param path string
---@param what string|nil the function the user called
---@return table model
-- Raises EFORMAT with the path and what is wrong in it, EIO where it cannot be read.
function M.read(path, what)
  local s = open(path, what or 'onnx.read')
  if s.bytes == 0 then wrong(s, 'it is empty') end
  local model = read(s, M_OF.model, 0, s.bytes, { opset = {}, metadata = {}, functions = {} })
  if not model.graph then wrong(s, 'it holds no graph: it is no ONNX model') end
  local opset = model.opset['']
  if not next(model.opset) and (model.ir_version or 0) >= 3 then
    wrong(s, 'it does not say which version of the operators it is written in')
  end
  if opset and opset > M.NEWEST then
    wrong(s, 'it is written in operators of version %d; ridge reads up to %d', opset, M.NEWEST)
  end
  model.bytes = s.bytes
  check.order(model, function(sentence) wrong(s, '%s', sentence) end)
  return model
end

--- Read a file that holds one tensor (TensorProto), as ONNX's tests have them.
---@param path string
---@param what string|nil the function the user called
---@return table tensor for file.tensor
function M.read_tensor(path, what)
  local s = open(path, what or 'onnx.read_tensor')
  return make_tensor(s, 0, s.bytes)
end

--- Write a model as an ONNX file (ridge.onnx.write).
---@param path string
---@param model table as file.read gives it; new tensors are { name =, value = Tensor }
---@param opts table|nil { inline = bytes of weights up to which they stand in the file itself }
---@param what string|nil the function the user called
---@return table { bytes =, external = name of the file beside it, external_bytes = }
function M.write(path, model, opts, what)
  return require('ridge.onnx.write').write(path, model, opts, what)
end

--- Is this the name of a type that ridge computes with?
---@param name string
---@return boolean
function M.has_type(name)
  return dtype.bytes[name] ~= nil
end

return M
