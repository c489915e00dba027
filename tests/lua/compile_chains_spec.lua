-- SPDX-License-Identifier: MIT
-- Fused chains as calls one after the other, which max-autotune tries: the same bits, chosen by
-- times, kept; and values of edited graphs that lie in the memory of those they took the place of.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local chains = require 'ridge.compile.chains'
local choices = require 'ridge.choices'
local functions = require 'tests.lua.graph_functions'
local kept = require 'ridge.plan_choices'
local timing = require 'ridge.compile.timing'

ridge.graph.lines(false)

local FUSE = { 'elementwise_fusion', 'dead_code_elimination' }

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

local function all(list)
  local set = {}
  for _, kind in ipairs(list) do set[kind] = true end
  return set
end

local function fused(f, ...) return ridge.graph(f, ...):optimize(FUSE):check() end

describe('a chain apart', function()
  before_each(function() choices.forget() end)
  teardown(function() choices.forget() end)

  it('has the bits of the chain, in random functions', function()
    local n = 0
    for seed = 1, 12 do
      local got = {}
      for _, is_apart in ipairs { false, true } do
        ridge.seed(seed)
        local world = functions.world(seed, { sites = true })
        functions.refill(world, 0)
        local graph = fused(functions.of(world))
        if is_apart then
          local kinds = chains.kinds(graph)
          n = n + #kinds
          chains.edit(all(kinds))(graph)
          graph:check()
        end
        local plan, list = graph:plan(), {}
        for round = 1, 2 do
          ridge.seed(round)
          functions.refill(world, round)
          list[round] = { bits.all(plan:run()), bits.all(functions.held(world)) }
        end
        got[#got + 1] = bits.flat(list)
      end
      assert.same(got[1], got[2], seed)
    end
    assert.is_true(n > 20, n)
  end)

  it('is of kinds, and of none that writes or copies', function()
    local x, y = ridge.randn(4, 6), ridge.randn(6)
    local graph = fused(function(a)
      local big = ridge.zeros(40, 6) + a:sum()
      return (a * 2 + y):tanh(), 1 - a:exp():to 'f64', (big * 3):exp()
    end, x)
    local kinds = chains.kinds(graph)
    assert.matches('^chain .*exp', kinds[1])
    for i = 2, #kinds do assert.is_nil(kinds[i]:find('f32[40,6]', 1, true)) end
    local some = graph:copy()
    chains.edit { [kinds[1]] = true }(some)
    assert.equal(#kinds - 1, #chains.kinds(some:check()))
    chains.edit(all(kinds))(graph)
    assert.is_nil(ops(graph:check()):find 'fused', ops(graph))
    local writes = fused(function(a)
      a:mul_(2)
      a:add_(1)
    end, x)
    assert.matches('fused', ops(writes))
    assert.same({}, chains.kinds(writes))
  end)

  it('is tried by max-autotune, kept where it is faster, and obeyed', function()
    local x = ridge.randn(3, 5)
    local function f(a) return (a * 2 + 1):tanh() end
    local before, tried = timing.medians, {}
    local function compiled(part)
      timing.medians = function(list) -- of two plans the second one is another way
        for _, g in ipairs(list) do g() end
        tried[#tried + 1] = #list
        local chain = #list == 2 and #tried == 2
        return #list == 2 and { 100, chain and 100 * part or 100 } or { 9 }
      end
      tried = {}
      local c = ridge.compile(f, { mode = 'max-autotune', say = function() end })
      local y, n = c(x), 0
      timing.medians = before
      assert.same(f(x):tolist(), y:tolist())
      for size in c.shelf:each() do n = n + #size.made.plan.emitted:nodes() end
      return n, #tried
    end
    for _, case in ipairs { { 0.5, 'apart', 3 }, { 0.99, 'joined', 1 } } do
      choices.forget()
      -- without elementwise_fusion, with its chain apart, and the plan beside the function
      assert.same({ case[3], 3 }, { compiled(case[1]) })
      local row
      for _, one in ipairs(kept.all()) do row = one.operation == 'chain' and one or row end
      assert.equal(case[2], row.path)
      assert.equal('joined', row.standard)
      assert.equal(100e6 * case[1], row.times.apart.ns)
      assert.same({ case[3], 1 }, { compiled(1) })
    end
  end)
end)

describe('a value that takes the place of another one', function()
  -- Each relu as a call of its own in front of the node that made it.
  local function edited(f, x)
    local graph = ridge.graph(f, x)
    for _, node in ipairs(graph:nodes()) do
      if node.op == 'relu' then
        local made = graph:insert('relu', node.inputs, { before = node })
        graph:replace(node.outputs[1], made.outputs[1])
        graph:remove(node)
      end
    end
    return graph:check()
  end

  it('lies in its memory, with what is viewed and written there', function()
    local x = ridge.randn(4, 6)
    local function f(a)
      local y = a:relu()
      local v = y:reshape(2, 12)
      local more = (a + 1):relu()
      more:mul_(3)
      local w = more:t()
      w:add_(1)
      local z = a:exp() * 2 -- takes the memory of what nobody needs any more
      return v:sum(1), z, w, more
    end
    local plan = edited(f, x):plan()
    for _ = 1, 2 do
      x:copy_(ridge.randn(4, 6))
      assert.same(bits.all { f(x) }, bits.all { plan:run() })
    end
  end)

  it('has the views of what lay elsewhere', function()
    local x = ridge.randn(4, 6)
    local graph = ridge.graph(function(a)
      local y, z = a:exp(), a:tanh()
      return y:reshape(6, 4):t() * 2, z
    end, x)
    local nodes = graph:nodes()
    graph:replace(nodes[1].outputs[1], nodes[2].outputs[1]) -- of one that is there already
    graph:check()
    for _, node in ipairs(graph:nodes()) do
      if node.op == 'reshape' or node.op == 'transpose' then
        assert.equal(nodes[2].outputs[1].storage, node.outputs[1].storage)
      end
    end
    local y = graph:plan():run()
    assert.same((x:tanh():reshape(6, 4):t() * 2):tolist(), y:tolist())
  end)
end)
