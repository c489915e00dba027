-- SPDX-License-Identifier: MIT
-- What max-autotune found of graphs and of kinds of nodes: kept in the table of choices, obeyed.
local ridge = require 'ridge'
local choices = require 'ridge.plan_choices'
local nn = ridge.nn

local function quiet() end

local function net()
  return nn.Sequential(nn.Conv2d(16, 16, 3, { padding = 1, seed = 1 }), nn.ReLU(),
    nn.Conv2d(16, 16, 3, { padding = 1, seed = 2 }), nn.ReLU(), nn.Flatten(),
    nn.Linear(16 * 36, 8, { seed = 3 }), nn.Tanh()):eval()
end

local function compiled(f, x)
  local c = ridge.compile(f, { mode = 'max-autotune', say = quiet })
  c(x)
  local row = c:report()[1]
  assert.equal('max-autotune', row.mode)
  return c, row
end

local function by(operation)
  local list = {}
  for _, row in ipairs(choices.all()) do
    if row.operation == operation then list[#list + 1] = row end
  end
  return list
end

-- How many nodes of a kind the plan runs.
local function count(c, op)
  local n = 0
  for size in c.shelf:each() do
    for _, node in ipairs(size.made.plan.emitted:nodes()) do n = n + (node.op == op and 1 or 0) end
  end
  return n
end

describe('choices of max-autotune', function()
  local folder, x

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    x = ridge.randn(2, 16, 6, 6)
  end)
  before_each(function() require('ridge.choices').forget() end)
  teardown(function()
    require('ridge.choices').forget()
    for _, ending in ipairs { '', '-wal', '-shm', '.lock' } do os.remove(folder .. ending) end
  end)

  it('are one of a graph and one of each kind of node, and count again', function()
    local _, row = compiled(net(), x)
    assert.is_true(row.tuned_ms > 0)
    local graphs, nodes = by 'passes', by 'epilogue'
    assert.equal(1, #graphs)
    assert.matches('^%d+ nodes %x+ t%d+ [%w_]+$', graphs[1].problem)
    assert.equal('all', graphs[1].standard)
    if graphs[1].path == 'all' then assert.equal(2, #nodes) end -- both convolutions are one kind
    for _, node in ipairs(nodes) do
      assert.matches('^%w+ f32%[.* act=%w+.* t%d+ [%w_]+$', node.problem)
      local faster = node.times.apart.ns < 0.97 * node.times.joined.ns
      assert.equal(faster and 'apart' or 'joined', node.path)
    end
    local _, again = compiled(net(), x)
    assert.is_nil(again.tuned_ms)
    local _, other = compiled(net(), ridge.randn(1, 16, 6, 6))
    assert.is_true(other.tuned_ms > 0)
    assert.equal(2, #by 'passes')
  end)

  it('are kept in a database and taken from there', function()
    compiled(net(), x)
    local n = #choices.all()
    local want = choices.all()
    assert.is_true(ridge.backend.save_choices { db = folder } >= n)
    assert.equal(0, ridge.backend.save_choices { db = folder })
    require('ridge.choices').forget()
    assert.equal(0, #choices.all())
    local taken = ridge.backend.load_choices { db = folder }
    assert.equal(0, taken.skipped)
    local got = choices.all()
    assert.equal(n, #got)
    for i, row in ipairs(want) do
      assert.same({ row.operation, row.problem, row.path, row.standard, row.rounds },
        { got[i].operation, got[i].problem, got[i].path, got[i].standard, got[i].rounds })
    end
    assert.is_nil(select(2, compiled(net(), x)).tuned_ms)
    assert.equal(0, ridge.backend.load_choices { db = folder }.put)
  end)

  it('are obeyed', function()
    compiled(net(), x)
    local graph, nodes = by 'passes'[1], by 'epilogue'
    local function put(row, path)
      choices.put(row.operation, row.problem, path, row.standard, {}, 15)
    end
    put(graph, 'all')
    for _, node in ipairs(nodes) do put(node, 'joined') end
    local c = compiled(net(), x)
    local want = c(x)
    assert.equal(0, count(c, 'relu') + count(c, 'tanh'))
    for _, node in ipairs(nodes) do put(node, 'apart') end
    c = compiled(net(), x)
    assert.equal(#nodes > 0 and 2 or 0, count(c, 'relu'))
    assert.is_true((c(x) - want):abs():max():item() < 1e-5)
    for _, node in ipairs(nodes) do put(node, 'joined') end
    put(graph, 'without epilogue_fusion')
    c = compiled(net(), x)
    assert.equal(2, count(c, 'relu'))
    for _, wrong in ipairs { 'without', 'without x', 'fold_affine', '', 'without fold_affine,',
      'without fold_affine,channels_last' } do
      put(graph, wrong)
      assert.is_true(select(2, compiled(net(), x)).tuned_ms > 0, wrong)
    end
  end)

  it('are left where deterministic is on, and are of these threads', function()
    compiled(net(), x)
    local graph = by 'passes'[1]
    assert.equal(graph.path, choices.get('passes', graph.problem))
    local before = ridge.num_threads()
    ridge.set_num_threads(before + 1)
    local here = choices.problem 'a'
    ridge.set_num_threads(before)
    assert.not_equal(here, choices.problem 'a')
    ridge.set_default_backend(ridge.backend.cpu { deterministic = true })
    local got = choices.get('passes', graph.problem)
    ridge.set_default_backend(ridge.backend.cpu { deterministic = false })
    assert.is_nil(got)
  end)
end)
