-- SPDX-License-Identifier: MIT
-- Graphs whose net infers in 8 bits where it was calibrated (F65).
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

describe("graph:optimize('aggressive', { calibrate = })", function()
  local net = nn.Sequential(nn.Linear(24, 64, { activation = 'relu', seed = 1 }),
    nn.Linear(64, 5, { seed = 2 })):eval()
  local x = ridge.randn(3, 24, { generator = ridge.generator(4) })
  local data = ridge.data.Loader({ ridge.randn(64, 24, { generator = ridge.generator(5) }) },
    { batch = 16, shuffle = false })

  local function ops(graph)
    local list = {}
    for i, node in ipairs(graph:nodes()) do list[i] = node.op end
    return table.concat(list, ' ')
  end

  it('computes in whole numbers what quant.static does, and leaves the graph', function()
    local graph = ridge.graph(ridge.inference, net, x)
    local before = ops(graph)
    assert.is_nil(before:find('scaled_linear', 1, true))
    assert.is_nil(ops(graph:optimize 'aggressive'):find('scaled_linear', 1, true))
    local q = graph:optimize('aggressive', { calibrate = data, rows = false })
    assert.equal(2, select(2, ops(q):gsub('scaled_linear', '')))
    assert.equal(before, ops(graph))
    local wanted = ridge.inference(ridge.quant.static(net, { calibrate = data, rows = false }), x)
    local y = q:plan():run { x }
    assert.same(wanted:tolist(), y:tolist())
    assert.is_true((y - ridge.inference(net, x)):abs():max():item() > 0) -- rounded it is
    assert.same({ 'i8', 'i8' }, { q.quantized.layers[1].kind, q.quantized.layers[2].kind })
    -- of a net that is called by itself, and of a copy
    for _, g in ipairs { ridge.graph(net, x), graph:copy() } do
      assert.equal(ops(q), ops(g:optimize('aggressive', { calibrate = data, rows = false })))
    end
  end)

  it('takes what is measured to be as fast with as many rows as the graph has', function()
    local faster, asked = require 'ridge.quant.faster', {}
    local before = faster.asked
    faster.asked = function()
      return { compare = function(_, _, layer, _, input)
        asked[#asked + 1] = input:size(1)
        local keep = layer.n_out == 64
        return { keep = keep, ratio = keep and 0.5 or 2, lo = 1, hi = 2 }
      end }
    end
    local ok, q = pcall(function()
      return ridge.graph(ridge.inference, net, x):optimize('aggressive', { calibrate = data })
    end)
    faster.asked = before
    assert(ok, q)
    assert.equal(1, select(2, ops(q):gsub('scaled_linear', '')))
    assert.same({ 3, 3 }, asked)
    assert.matches('not shown to be as fast', q.quantized.layers[2].why)
  end)

  it('says what it is not for', function()
    local graph = ridge.graph(ridge.inference, net, x)
    local function said(g, names, opts) return failure(g.optimize, g, names, opts) end
    assert.matches("calibrate is of 'aggressive'", said(graph, 'standard', { calibrate = data }))
    assert.matches('option calibrate is missing', said(graph, 'aggressive', {}))
    assert.matches('for graphs of a net with one input', said(ridge.graph(function(a)
      return a:exp()
    end, x), 'aggressive', { calibrate = data }))
    assert.matches('has no batch', said(graph, 'aggressive', { calibrate = { each = function()
      return function() end
    end } }))
    local training = nn.Sequential(nn.Linear(24, 4))
    assert.matches('training', said(ridge.graph(training, x), 'aggressive', { calibrate = data }))
  end)
end)
