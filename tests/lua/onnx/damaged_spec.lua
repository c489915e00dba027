-- SPDX-License-Identifier: MIT
-- ONNX files that are damaged, or made to do harm: one sentence with the file's name, no crash, and
-- no more memory than the file could need.  RIDGE_SOAK=N tries N times as many damages.
require 'ridge'
local ffi = require 'ffi'
local file = require 'ridge.onnx.file'
local wire = require 'tests.lua.onnx.wire'

local SOAK = tonumber(os.getenv 'RIDGE_SOAK') or 1
local SEED = tonumber(os.getenv 'RIDGE_SEED') or 1

-- In memory where there is such a folder: a disk takes milliseconds for each of thousands of files.
local folder = os.tmpname()
os.remove(folder)
if os.execute('test -w /dev/shm') == 0 then folder = '/dev/shm/' .. folder:match '[^/]*$' end
os.execute("mkdir '" .. folder .. "'")
local path = folder .. '/model.onnx'

local function put(text, at)
  local f = assert(io.open(at or path, 'wb'))
  f:write(text)
  f:close()
end

local function get(at)
  local f = assert(io.open(at, 'rb'))
  local text = f:read '*a'
  f:close()
  return text
end

-- Every weight of a model, those in attributes too.
local function weights(graph, f)
  for _, t in ipairs(graph.initializers) do f(t) end
  for _, node in ipairs(graph.nodes) do
    for _, a in pairs(node.attributes) do
      if a.type == 'tensor' and a.value then f(a.value) end
    end
  end
end

local CODES = { EFORMAT = true, EDTYPE = true, EIO = true, ESHAPE = true }

-- What is said of a file; nil where it is read, weights and all.
local function said(text)
  if text then put(text) end
  local ok, err = pcall(function()
    weights(file.read(path).graph, function(t)
      if t.type ~= 'string' and not t.type:find 'complex' and file.has_type(t.type) then
        file.tensor(t)
      end
    end)
  end)
  if ok then return nil end
  if type(err) ~= 'table' then error('an error of Lua itself: ' .. tostring(err), 0) end
  local sentence = tostring(err.message)
  if not (sentence:find(path, 1, true) and not sentence:find '\n' and CODES[err.code]) then
    error(tostring(err.code) .. ': ' .. sentence, 0)
  end
  return sentence
end

local function refused(pattern, text)
  local sentence = said(text)
  assert.is_string(sentence, 'read, and should be refused: ' .. pattern)
  assert.matches(pattern, sentence)
end

-- Bytes that this process ever held at once.
local function peak()
  return tonumber(get('/proc/self/status'):match 'VmHWM:%s*(%d+)') * 1024
end

describe('a damaged ONNX file', function()
  teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

  it('may end anywhere', function()
    local text, read = get 'tests/fixtures/onnx/every.onnx', 0
    for n = 0, #text - 1 do
      if not said(text:sub(1, n)) then read = read + 1 end
    end
    assert.is_true(read < 20, read .. ' beginnings are whole files') -- ends between two fields
    assert.is_nil(said(text))
  end)

  it('may have any bits', function()
    local text = get 'tests/fixtures/onnx/every.onnx'
    math.randomseed(SEED)
    for n = 1, 2000 * SOAK do
      local bytes = ffi.new('uint8_t[?]', #text)
      ffi.copy(bytes, text, #text)
      for _ = 1, math.random(3) do
        local at = math.random(#text) - 1
        bytes[at] = math.random(2) == 1 and bit.bxor(bytes[at], bit.lshift(1, math.random(0, 7)))
          or math.random(0, 255)
      end
      local damaged = ffi.string(bytes, #text)
      local ok, err = pcall(said, damaged)
      assert.is_true(ok, ('seed %d, damage %d: %s'):format(SEED, n, tostring(err)))
    end
  end)

  it('is empty, a folder, a FIFO, or not there', function()
    refused('it is empty', '')
    path = folder
    refused 'is no file'
    path = folder .. '/fifo'
    os.execute("mkfifo '" .. path .. "'")
    refused 'is no file'
    path = folder .. '/nothing'
    refused 'No such file'
    path = folder .. '/model.onnx'
  end)

  it('is no model', function()
    refused('no field of a model', 'PK\3\4 and so on')
    refused('it holds no graph', wire.int(1, 8))
    refused('which version of the operators', wire.int(1, 8) .. wire.bytes(7, ''))
    refused('graph is given twice', wire.model '' .. wire.bytes(7, ''))
    refused('version 25; ridge reads up to 24', wire.model('', 25))
    refused('is stored as kind 0, not 2', wire.int(7, 3))
  end)

  it('has lengths beyond its end', function()
    refused('a length of 9007199254740992 bytes in a model of which %d+ bytes are left',
      wire.varint(58) .. wire.varint(2 ^ 53) .. 'abc')
    refused('cut off in a model', wire.varint(58) .. ('\255'):rep(12))
  end)

  it('has graphs in each other, 100,000 deep', function()
    assert.is_nil(said(wire.model(wire.node('A', {}, { 'x' }))))
    refused('more than 64 messages in each other', wire.nested(100000))
  end)

  it('has millions of nodes', function()
    local before = peak()
    refused('a node has no operator', wire.model(('\10\0'):rep(5 * 2 ^ 20)))
    refused('more than 393216 nodes, attributes, values and tensors, too many for 10485',
      wire.model(('\10\3\34\1A'):rep(2 * 2 ^ 20)))
    refused('more than %d+ nodes', wire.model(('\90\0'):rep(5 * 2 ^ 20)))
    local list = { wire.bytes(4, 'A') }
    for i = 1, 2 ^ 18 do
      list[i + 1] = '\42\11\10\6' .. ('%06x'):format(i) .. '\160\1\2' -- an attribute, int
    end
    refused('more than %d+ nodes', wire.model(wire.bytes(1, table.concat(list))))
    assert.is_true(peak() - before < 400 * 2 ^ 20, (peak() - before) / 2 ^ 20 .. ' MB')
  end)

  it('has a cycle', function()
    refused("waits for itself: the graph has a cycle", wire.model(
      wire.node('Add', { 'a', 'b' }, { 'c' }) .. wire.node('Neg', { 'c' }, { 'b' })
      .. wire.value(11, 'a') .. wire.value(12, 'c')))
  end)

  it('has its nodes in another order, which is mended', function()
    put(wire.model(wire.node('B', { 'b' }, { 'c' }) .. wire.node('A', { 'a' }, { 'b' })
      .. wire.node('D', { 'a' }, { 'd' }) .. wire.value(11, 'a') .. wire.value(12, 'c')))
    local order = {}
    for i, node in ipairs(file.read(path).graph.nodes) do order[i] = node.op end
    assert.same({ 'A', 'B', 'D' }, order)
  end)

  it('makes a value twice, or never', function()
    local input = wire.value(11, 'a')
    refused("node 2 %(B%) makes 'b', which is made already", wire.model(input
      .. wire.node('A', { 'a' }, { 'b' }) .. wire.node('B', { 'a' }, { 'b' })))
    refused("node 1 %(A%) makes 'a', which is made already", wire.model(input
      .. wire.node('A', { 'a' }, { 'a' })))
    refused("node 1 %(A%) reads 'x', which nothing makes", wire.model(input
      .. wire.node('A', { 'x' }, { 'b' })))
    refused("output 'y' is made by nothing", wire.model(input .. wire.value(12, 'y')))
    refused("input 'a' is there twice", wire.model(input .. input))
    refused("initializer 'w' is there twice", wire.model(
      (wire.bytes(5, wire.tensor('w', { 1 }, 2, 'x'))):rep(2)))
  end)

  it('has a weight that cannot be', function()
    local function weight(...) return wire.model(wire.bytes(5, wire.tensor('w', ...))) end
    refused("tensor 'w' takes 8 bytes and has 7", weight({ 2 }, 1, ('x'):rep(7)))
    refused("tensor 'w' takes 2 numbers and has 0 in float_data", weight({ 2 }, 1))
    refused("tensor 'w' has more elements than a number can count",
      weight({ 2 ^ 32, 2 ^ 32, 3 }, 1, 'xxxx'))
    refused('an axis of %-1 elements', wire.model(wire.bytes(5, '\8' .. ('\255'):rep(9) .. '\1')))
    refused("of element type 99, which is none", weight({ 1 }, 99, 'x'))
    refused('more than 16 axes', weight({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 2,
      'x'))
    refused('9 axes', weight({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 2, 'x'))
    refused('stored in segments', weight({ 1 }, 2, 'x', wire.bytes(3, '')))
  end)

  it('has weights anywhere but in its folder', function()
    put(('x'):rep(16), folder .. '/data')
    local outside = folder .. '-outside'
    put(('x'):rep(16), outside)
    os.execute(("mkdir '%s/sub' && ln -s '%s' '%s/link' && ln -s .. '%s/sub/up'"):format(folder,
      outside, folder, folder))
    os.execute(("mkfifo '%s/pipe'"):format(folder))
    put(('x'):rep(16), folder .. '/sub/inner')
    local function at(location, ...)
      return wire.model(wire.elsewhere('w', { 4 }, location, ...))
    end
    assert.is_nil(said(at 'data'))
    assert.is_nil(said(at('data', '0', '16')))
    assert.is_nil(said(at './sub/inner'))
    refused('is not below the model', at('../' .. outside:match '[^/]*$'))
    refused('is not below the model', at 'sub/../data')
    refused('is not below the model', at(outside))
    refused('is reached through a link', at 'link')
    refused('is reached through a link', at 'sub/up/data')
    refused('is no regular file', at 'pipe')
    refused('is no regular file', at 'sub')
    refused('is no path', at 'sub//inner')
    refused('has no path', at 'data\0x')
    refused('a file that is not named', at '')
    refused('No such file', at 'nothing')
    refused('at bytes 4 to 20 of data, which has 16', at('data', '4'))
    refused('at bytes 1 to 17 of data, which has 16', at('data', '1'))
    put(('x'):rep(17), folder .. '/longer')
    assert.is_nil(said(at('longer', '1', '16')))
    assert.is_nil(said(at('longer', '0', '16')))
    refused('takes 16 bytes and has 17 in another file', at('longer', '0', '17'))
    refused('takes 16 bytes and has 8 in another file', at('data', '0', '8'))
    refused("the offset '%-1'", at('data', '-1'))
    refused("the offset '99999999999999999999'", at('data', '99999999999999999999'))
    refused('at bytes 9000000000000000000 to', at('data', '9000000000000000000'))
    os.remove(outside)
  end)

  it('becomes shorter while it is read', function()
    put(wire.model(wire.bytes(5, wire.tensor('w', { 100000 }, 1, ('x'):rep(400000)))))
    local t = file.read(path).graph.initializers[1]
    put(get(path):sub(1, 5000))
    local ok, err = pcall(file.tensor, t)
    assert.is_false(ok)
    assert.matches("tensor 'w'", tostring(err))
  end)
end)
