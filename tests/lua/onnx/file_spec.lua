-- SPDX-License-Identifier: MIT
-- ONNX files that onnx wrote are read in every field, and written back as they were.
local ridge = require 'ridge'
local ffi = require 'ffi'
local file = require 'ridge.onnx.file'

local EVERY = 'tests/fixtures/onnx/every.onnx'

-- What two tables differ in; what begins with _ is where they come from.
local function difference(a, b, at)
  if type(a) ~= type(b) then return ('%s: %s, %s'):format(at, tostring(a), tostring(b)) end
  if type(a) == 'cdata' then return a ~= b and at or nil end
  if type(a) ~= 'table' then
    return a ~= b and ('%s: %s, %s'):format(at, tostring(a), tostring(b)) or nil
  end
  for _, pair in ipairs { { a, b }, { b, a } } do
    for key, value in pairs(pair[1]) do
      if tostring(key):sub(1, 1) ~= '_' then
        local found = difference(value, pair[2][key], at .. '.' .. tostring(key))
        if found then return found end
      end
    end
  end
end

describe('an ONNX file', function()
  local model, node

  before_each(function()
    model = file.read(EVERY)
    node = model.graph.nodes[2]
  end)

  it('says where it comes from', function()
    assert.equal(10, model.ir_version)
    assert.same({ [''] = 17, test = 1 }, model.opset)
    assert.same({ key = 'value', other = '' }, model.metadata)
    assert.equal('fixtures', model.producer)
    assert.equal('every', model.graph.name)
  end)

  it('has values of every kind of type', function()
    assert.same({ name = 'x', type = 'f32', shape = { 'N', 3 } }, model.graph.inputs[1])
    assert.same({ name = 'condition', type = 'bool', shape = {} }, model.graph.inputs[2])
    assert.same({ name = 's', type = 'sequence', of = { type = 'f32', shape = { 2 } } },
      model.graph.inputs[3])
    assert.same({ name = 'o', type = 'optional', of = { type = 'i64', shape = { 1 } } },
      model.graph.inputs[4])
    assert.equal('i64', model.graph.inputs[5].key)
    assert.same({ false, 3 }, model.graph.values[1].shape)
    local graph = model.graph.nodes[1].attributes.then_branch.value
    assert.equal('Relu', graph.nodes[1].op)
    assert.is_nil(graph.outputs[1].shape)
  end)

  it('has attributes of every kind', function()
    local a = node.attributes
    assert.same({ 'x', '', 'FLOAT_raw' }, node.inputs)
    assert.same({ type = 'float', value = 0.25 }, a.a_float)
    assert.same({ type = 'int', value = -7 }, a.an_int)
    assert.same({ type = 'string', value = 'text' }, a.a_string)
    assert.same({ 1.5, -2 }, a.floats.value)
    assert.same({ 0, -1, 2 ^ 40 }, a.ints.value)
    assert.same({ 'a', '', 'c' }, a.strings.value)
    assert.equal(2LL ^ 62, a.big.value)
    assert.same({ 2, -1 }, file.tensor(a.a_tensor.value):tolist())
    assert.same({ 3 }, file.tensor(a.tensors.value[1]):tolist())
    assert.equal('Relu', a.graphs.value[1].nodes[1].op)
    assert.same({ 2, 3 }, a.sparse.value.shape)
    assert.same({ 1, 4 }, file.tensor(a.sparse.value.indices):tolist())
    assert.same({ 1, 2 }, file.tensor(model.graph.sparse[1].values):tolist())
    local inner = model.functions[1].nodes[2].attributes.scale
    assert.same({ type = 'float', ref = 'scale' }, inner)
  end)

  it('has tensors of every type, in raw bytes and in lists', function()
    local seen = 0
    for _, t in ipairs(model.graph.initializers) do
      local kind, how = t.name:match '^(.*)_(%a+)$'
      if how then
        seen = seen + 1
        local ok, x = pcall(file.tensor, t)
        if kind:find 'COMPLEX' or kind:find 'UZ' or kind:find 'E2M1' then
          assert.is_false(ok)
          assert.matches('ridge has no elements of type ' .. t.type, tostring(x))
        else
          local signed = not kind:find '^UINT'
          local want = kind == 'BOOL' and { true, false } or { 0, 1, signed and -2 or 2, 3, 6 }
          local got = ok and x:to(kind == 'BOOL' and 'bool' or 'f32'):tolist() or tostring(x)
          if kind == 'BOOL' then want = { false, true, true, false, true } end
          assert.same(want, got, t.name)
        end
      end
    end
    assert.equal(42, seen)
  end)

  it('has strings, scalars and tensors of nothing', function()
    local by_name = {}
    for _, t in ipairs(model.graph.initializers) do by_name[t.name] = t end
    assert.matches('no elements of type string',
      tostring(select(2, pcall(file.tensor, by_name.strings))))
    assert.equal(0.5, file.tensor(by_name.scalar):item())
    assert.same({ 0, 3 }, file.tensor(by_name.nothing):size())
  end)

  it('may be one tensor', function()
    local t = file.read_tensor 'tests/fixtures/onnx/six.pb'
    assert.equal('six', t.name)
    assert.same({ { 0, 1, 2 }, { 3, 4, 5 } }, file.tensor(t):tolist())
  end)

  for _, how in ipairs { 'whole', 'with weights in another file' } do
    it('is the same when it is written and read again, ' .. how, function()
      local path = os.tmpname()
      if how ~= 'whole' then -- large enough to go there
        table.insert(model.graph.initializers, { name = 'large', value = ridge.randn(600) })
      end
      local said = file.write(path, model, how ~= 'whole' and { inline = 100 } or nil)
      local back = file.read(path)
      local n = #model.graph.initializers
      if how ~= 'whole' then
        assert.equal(path:match '[^/]*$' .. '.data', said.external)
        assert.equal(2400, said.external_bytes)
        local large = table.remove(back.graph.initializers)
        assert.equal(large.external.bytes, 2400)
        assert.same(table.remove(model.graph.initializers).value:tolist(),
          file.tensor(large):tolist())
        n = n - 1
      end
      for i = 1, n do
        local a, b = model.graph.initializers[i], back.graph.initializers[i]
        local ok, x = pcall(file.tensor, a)
        if ok then assert.same(x:to('f64'):tolist(), file.tensor(b):to('f64'):tolist()) end
      end
      back.bytes = model.bytes -- how long the file was
      assert.is_nil(difference(model, back, 'model'))
      os.remove(path)
      os.remove(path .. '.data')
    end)
  end

  it('is not written where a name is no text, and says so', function()
    local path = os.tmpname()
    local named = model.graph.name
    model.graph.name = 3
    local ok, e = pcall(file.write, path, model, nil, 'onnx.write')
    model.graph.name = named
    os.remove(path)
    assert.is_false(ok)
    assert.equal('EARG', e.code)
    assert.matches('onnx.write: a text is expected in the model, got 3', e.message, 1, true)
  end)

  it('keeps more than 2^53 in a whole number', function()
    assert.is_true(ffi.istype('int64_t', node.attributes.big.value))
  end)
end)
