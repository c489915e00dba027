-- SPDX-License-Identifier: MIT
-- Sparse layers as ONNX files: dense weights with exactly the zeros of the pruned net.
local ridge = require 'ridge'
local file = require 'ridge.onnx.file'
local nn = ridge.nn

local path = os.tmpname()

local function apart(a, b) return (a - b):abs():max():item() end

-- Two layers, whose sizes fall into no sixteens, with at most n of m, or as many in whole blocks.
local function masked(pattern, n, m)
  local net = nn.Sequential(nn.Linear(41, 36, { activation = 'relu', seed = 1 }),
    nn.Linear(36, 21, { bias = false, seed = 2 })):eval()
  for i = 1, 2 do
    local w = net[i].weight
    local rows, k = w:size(1), w:size(2)
    local at = ridge.arange(0, k - 1):reshape(1, k)
    local turn = ridge.arange(0, rows - 1):reshape(rows, 1)
    if pattern == 'block' then turn = (turn / 16):floor() * 3 end
    local place = at + turn
    ridge.no_grad(function()
      w:copy_(w * (place - (place / m):floor() * m):lt(n):to 'f32')
      if pattern == 'n:m' then -- places counted from the start of each m
        local inside = at - (at / m):floor() * m
        w:copy_(w * inside:lt(n):to 'f32')
      end
    end)
  end
  return net
end

local function exported(net, x)
  local r = ridge.onnx.export(net, path, { x = x })
  assert.is_nil(r.validation_error)
  local known, ops, graph = {}, {}, file.read(path).graph
  for _, t in ipairs(graph.initializers) do known[t.name] = file.tensor(t) end
  for _, node in ipairs(graph.nodes) do ops[node.op] = (ops[node.op] or 0) + 1 end
  return r, known, ops
end

describe('a sparse net as a file', function()
  teardown(function() os.remove(path) end)
  local x = ridge.randn(5, 41, { generator = ridge.generator(3) })

  it('has dense weights with its zeros, and its results', function()
    for _, case in ipairs { { 'n:m', 2, 4 }, { 'n:m', 1, 16 }, { 'n:m', 3, 8 }, { 'n:m', 1, 2 },
      { 'rows', 1, 5 }, { 'block', 1, 5 } } do
      local m = masked(unpack(case))
      local c = ridge.prune.compact(m, { format = case[1] == 'block' and 'blocks' or case[1] })
      assert.equal('prune.SparseLinear', getmetatable(c[1]).__name)
      local r, known, ops = exported(c, x)
      assert.is_true(r.max_difference < 1e-5)
      assert.same({ 2, 1 }, { ops.MatMul, ops.Relu })
      for i = 1, 2 do
        local w = known[i .. '.values.dense']
        assert.equal(0, apart(w:t():narrow(1, 1, m[i].weight:size(1)), m[i].weight))
        assert.equal(0, apart(c[i]:effective_weight(), m[i].weight))
      end
      assert.is_true(apart(ridge.inference(ridge.onnx.load(path), x), ridge.inference(m, x)) < 1e-5)
    end
  end)

  it('is in f32 of weights in bf16, behind inputs that are', function()
    local m = masked('n:m', 2, 4):to 'bf16'
    local c = ridge.prune.compact(m, { format = 'n:m' })
    assert.equal('bf16', c[1].values.dtype)
    local _, known, ops = exported(c, x:to 'bf16')
    assert.equal('f32', known['1.values.dense'].dtype)
    assert.equal(0, apart(known['1.values.dense']:t(), m[1].weight:to 'f32'))
    assert.is_true(ops.Cast >= 1)
  end)

  it('is refused where its weight comes from outside', function()
    local w = ridge.sparse(ridge.eye(16), { pattern = '1:16' })
    local ok, e = pcall(ridge.onnx.export, function(a, values)
      return ridge.sparse_linear(a, { index = w.index, values = values, rows = 16, columns = 16 })
    end, path, { x = { ridge.randn(2, 16), w.values } })
    assert.is_false(ok)
    assert.truthy(tostring(e):find('its weight is not known when the file is written', 1, true))
  end)
end)

describe('the matrix of a sparse layer', function()
  it('has numbers that are not finite where they are, and nowhere else', function()
    for format, n in pairs { rows = 1, blocks = 1, ['n:m'] = 2 } do
      local m = masked(format == 'blocks' and 'block' or format, n, 4)
      local w = m[1].weight
      ridge.no_grad(function()
        w:narrow(1, 33, 1):narrow(2, 1, 1):fill_(math.huge)
      end)
      local c = ridge.prune.compact(m, { format = format })
      local found = c[1]:effective_weight()
      assert.same({ 36, 41 }, found:size())
      assert.is_true(found:eq(w):all():item() == 1)
    end
  end)

  it('is refused of a layer that no product takes', function()
    local c = ridge.prune.compact(masked('rows', 1, 5), { format = 'rows' })
    c[1].column:fill_(41)
    local ok, e = pcall(c[1].effective_weight, c[1])
    assert.is_false(ok)
    assert.truthy(tostring(e):find('a column is outside of 0 .. 40', 1, true))
  end)
end)
