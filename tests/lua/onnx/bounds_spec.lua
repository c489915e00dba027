-- SPDX-License-Identifier: MIT
-- Nodes of a few bytes that ask for work without end: how much is done follows from what tensors
-- hold, not from a number in the file; the rest is refused, or left to the memory's limit.
local ridge = require 'ridge'
local load = require 'ridge.onnx.load'

local function i64(list) return ridge.tensor(list, { dtype = 'i64' }) end
local function ints(list) return { type = 'ints', value = list } end
local function int(value) return { type = 'int', value = value } end
local function word(text) return { type = 'string', value = text } end

-- A model of one node: its inputs are x and what is in the file; false where there is none.
local function model(op, attributes, numbers, outputs)
  local graph = { name = 'g', nodes = {}, inputs = { { name = 'x' } }, outputs = {}, values = {},
    initializers = {} }
  local names, made = { 'x' }, {}
  for i, value in ipairs(numbers or {}) do
    names[i + 1] = value and 'n' .. i or ''
    if value then table.insert(graph.initializers, { name = 'n' .. i, value = value }) end
  end
  for i = 1, outputs or 1 do
    made[i] = 'y' .. i
    graph.outputs[i] = { name = made[i] }
  end
  graph.nodes[1] = { op = op, domain = '', name = 'node', inputs = names, outputs = made,
    attributes = attributes }
  return load.of({ opset = { [''] = 18 }, graph = graph, functions = {}, metadata = {} }, 'g')
end

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- What is in the way of a call where tensors may take 64 MB.
local function beyond_memory(m, x)
  ridge.memory.set_limit(ridge.memory.stats().live + 2 ^ 26)
  local why = failure(m, x)
  ridge.memory.set_limit(0)
  return why
end

local function ops(m, x)
  local list = {}
  for i, node in ipairs(m:graph(x):nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

local image = ridge.arange(1, 16):reshape(1, 1, 4, 4)
local crop = { coordinate_transformation_mode = word 'tf_crop_and_resize', mode = word 'linear' }
local roi = ridge.tensor { 0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8 }

describe('a node of ONNX that asks for much', function()
  it('is one call of ridge for each axis that Resize changes, however many positions', function()
    for _, mode in ipairs { 'nearest', 'linear', 'cubic' } do
      local given = { mode = word(mode), antialias = int(mode == 'nearest' and 0 or 1) }
      assert.equal('resample resample',
        ops(model('Resize', given, { false, false, i64 { 1, 1, 9, 3 } }), image))
    end
    assert.equal(('resample '):rep(4):sub(1, -2),
      ops(model('Resize', crop, { roi, false, i64 { 1, 1, 3, 3 } }), image))
  end)

  it('has as many positions as memory has room for', function()
    for _, most in ipairs { 2 ^ 25, 2 ^ 29 } do
      local why = beyond_memory(model('Resize', crop, { roi, false, i64 { 1, 1, most, 3 } }),
        image)
      assert.matches("memory: .* MB more would pass the limit .*Resize 'node'", why)
    end
    assert.matches('an axis of 4 cannot become one of 1073741825', failure(model('Resize', crop,
      { roi, false, i64 { 1, 1, 2 ^ 30 + 1, 3 } }), image))
    for _, mode in ipairs { 'edge', 'wrap', 'reflect' } do
      local given = { mode = word(mode) }
      assert.equal('pad', ops(model('Pad', given, { i64 { 0, 0, 0, 9, 0, 0, 0, 9 } }), image))
      assert.matches("memory: .* MB more would pass the limit .*Pad 'node'", beyond_memory(
        model('Pad', given, { i64 { 0, 0, 0, 2 ^ 25, 0, 0, 0, 2 ^ 25 } }), image))
    end
  end)

  it('tiles tensors of many axes without a call for each copy', function()
    local x = ridge.arange(1, 6):reshape(1, 2, 1, 3, 1)
    local m = model('Tile', {}, { i64 { 1, 2, 1, 3, 1 } })
    local want = {}
    for _ = 1, 2 do
      for _, row in ipairs { { 1, 2, 3 }, { 4, 5, 6 } } do
        for _ = 1, 3 do
          for _, value in ipairs(row) do want[#want + 1] = value end
        end
      end
    end
    local y = m(x)
    assert.same({ 1, 4, 1, 9, 1 }, y.shape)
    assert.same(want, y:reshape(-1):tolist())
    local few = #model('Tile', {}, { i64 { 1, 1, 1, 2, 1 } }):graph(x):nodes()
    assert.equal(few, #model('Tile', {}, { i64 { 1, 1, 1, 1000, 1 } }):graph(x):nodes())
    assert.matches('memory: .* MB more would pass the limit', beyond_memory(
      model('Tile', {}, { i64 { 1, 1, 1, 2 ^ 31, 1 } }), x))
    assert.same({ 1, 2, 1, 0, 1 }, model('Tile', {}, { i64 { 1, 1, 1, 0, 1 } })(x).shape)
  end)

  it('adds up as many channels as there are, whatever size LRN has', function()
    local x = ridge.arange(1, 12):reshape(1, 3, 2, 2)
    local function lrn(size, alpha)
      return model('LRN', { size = int(size), alpha = { type = 'float', value = alpha } })(x)
    end
    local times = 2 ^ 40 / 7 -- the sum is divided by the size
    assert.is_true((lrn(2 ^ 40, 0.5 * times) - lrn(7, 0.5)):abs():max():item() < 1e-6)
    assert.is_true((lrn(4, 0.5) - lrn(5, 0.625)):abs():max():item() > 1e-3) -- one more behind
  end)

  it('has windows of so many places at most, where each is a call', function()
    local x, most = ridge.ones(1, 1, 3), 2 ^ 16
    local function pool(size)
      local pads = ints { size, size }
      return model('LpPool', { kernel_shape = ints { size }, pads = pads, p = int(1),
        strides = ints { size } })
    end
    assert.equal(3, pool(4)(x):sum():item())
    local over = 'a window of 65537 elements; at most 65536 are computed'
    assert.matches(over, failure(pool(most + 1), x))
    assert.matches('Col2Im: ' .. over, failure(model('Col2Im', {},
      { i64 { 1 }, i64 { most + 1 } }), ridge.ones(1, most + 1, 1)))
    assert.matches('DeformConv: ' .. over, failure(model('DeformConv', {},
      { ridge.ones(1, 1, 1, most + 1), ridge.ones(1, 2 * (most + 1), 1, 1) }),
      ridge.ones(1, 1, 1, most + 1)))
  end)

  it('takes an axis once', function()
    for _, case in ipairs {
      { 'Slice', {}, { i64 { 0, 0 }, i64 { 1, 1 }, i64 { 1, -3 } } },
      { 'Pad', {}, { i64 { 1, 1, 1, 1 }, ridge.zeros {}, i64 { 1, -3 } } },
      { 'CenterCropPad', { axes = ints { 1, -3 } }, { i64 { 2, 2 } } },
      { 'Resize', { axes = ints { 1, -3 } }, { false, false, i64 { 2, 2 } } },
    } do
      assert.matches(case[1] .. ': axis %-3 is named twice', failure(model(unpack(case)), image))
    end
    assert.matches('Split: it has 2 outputs, and makes 3', failure(model('Split',
      { axis = int(2) }, { i64 { 1, 1, 2 } }, 2), image))
  end)

  it('is refused where lists do not fit the axes', function()
    for why, case in pairs {
      ['Tile: repeats has 2 numbers; expected 4'] = { 'Tile', {}, { i64 { 1, 2 } } },
      ['Resize: sizes has 2 numbers; expected 4'] = { 'Resize', {},
        { false, false, i64 { 1, 2 } } },
      ['Resize: scales has 2 numbers; expected 4'] = { 'Resize', {},
        { false, ridge.ones(2) } },
      ['Resize: roi has 2 numbers; expected 8'] = { 'Resize', crop,
        { ridge.ones(2), false, i64 { 1, 1, 2, 2 } } },
      ["Resize: mode 'near' is none"] = { 'Resize', { mode = word 'near' },
        { false, false, i64 { 1, 1, 2, 2 } } },
      ["Resize: keep_aspect_ratio_policy 'any' is none"] = { 'Resize',
        { keep_aspect_ratio_policy = word 'any' }, { false, false, i64 { 1, 1, 2, 2 } } },
    } do
      local said = failure(model(unpack(case)), image)
      assert.truthy(said:find(why, 1, true), said)
    end
  end)

  it('resizes whole numbers as they are, and rounds what lies between them', function()
    local big = i64 { 2 ^ 53, 1 } + i64 { 1, 0 } -- no double holds the first
    local y = model('Resize', {}, { false, false, i64 { 4 } })(big)
    assert.same({ 'i64', { 4 } }, { y.dtype, y.shape })
    assert.equal(2, (y - i64 { 2 ^ 53 }):eq(1):sum():item())
    local cropped = model('Resize', { coordinate_transformation_mode = word 'tf_crop_and_resize',
      extrapolation_value = { type = 'float', value = 7 } },
      { ridge.tensor { 0, 2 }, false, i64 { 5 } })
    assert.same({ 10, 20, 30, 7, 7 }, cropped(i64 { 10, 20, 30 }):tolist())
    assert.same({ 10, 20, 30, 7, 7 }, cropped(ridge.tensor { 10, 20, 30 }):tolist())
    local between = model('Resize', { mode = word 'linear' }, { false, false, i64 { 4 } })
    local x = ridge.tensor({ 0, 10 }, { dtype = 'u8' })
    assert.same({ 'u8', { 0, 2, 8, 10 } }, { between(x).dtype, between(x):tolist() })
    assert.same({ 0, 3 }, model('Resize', {}, { false, false, i64 { 0, 3 } })(
      ridge.zeros({ 2, 3 }, { dtype = 'i32' })).shape)
  end)
end)
