-- SPDX-License-Identifier: MIT
-- How images lie in single convolutions: marks that channels_last obeys, which max-autotune tries,
-- times and keeps.
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local choices = require 'ridge.choices'
local kept = require 'ridge.plan_choices'
local layouts = require 'ridge.compile.layouts'
local timing = require 'ridge.compile.timing'
local nn = ridge.nn

ridge.graph.lines(false)

-- Three convolutions that hang together; the one in the middle is of another kind.
local function net()
  return nn.Sequential(nn.Conv2d(32, 32, 3, { padding = 1, seed = 1 }), nn.ReLU(),
    nn.Conv2d(32, 48, 3, { padding = 1, seed = 2 }), nn.ReLU(),
    nn.Conv2d(48, 48, 3, { padding = 1, seed = 3 })):eval()
end

-- How images lie in the convolutions of a graph, in their order.
local function lie(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do
    if node.op == 'conv2d' then list[#list + 1] = node.args.layout end
  end
  return table.concat(list, ' ')
end

local function marked(graph, more)
  local copy = graph:copy()
  layouts.marks(more)(copy)
  return copy:check()
end

local function close(want, got)
  local off = (want - got):abs():max():item() / want:abs():max():item()
  assert.is_true(off < 1e-5, off)
end

describe('how images lie in a convolution', function()
  before_each(function() choices.forget() end)
  teardown(function() choices.forget() end)

  it('is as the mark says, in a region that is found anew', function()
    ridge.seed(4)
    local f, x = net(), ridge.randn(2, 32, 12, 12)
    local graph = ridge.inference(ridge.graph, f, x)
    local want = ridge.inference(f, x)
    local function behind(more)
      local h = marked(graph, more):optimize { layouts.PASS }:check()
      close(want, h:plan():run())
      return lie(h)
    end
    local kinds, by = layouts.kinds(graph), {}
    assert.equal(3, #kinds)
    for _, kind in ipairs(kinds) do by[kind:match 'f32%[%d+,%d+,3,3%]'] = kind end
    local first, second, third = by['f32[32,32,3,3]'], by['f32[48,32,3,3]'], by['f32[48,48,3,3]']
    local last = 'nhwc nhwc nhwc'
    assert.equal(last, behind())
    assert.equal('nchw nhwc nhwc', behind { [first] = 'first' })
    assert.equal('nhwc nhwc nchw', behind { [third] = 'first' })
    -- what is left on each side is one convolution alone, which is no longer worth two copies
    assert.equal('nchw nchw nchw', behind { [second] = 'first' })
    assert.equal('nhwc nchw nchw', behind { [second] = 'first', [first] = 'last' })
    assert.equal('nchw nchw nchw',
      behind { [first] = 'first', [second] = 'first', [third] = 'first' })
    assert.equal(last, behind { [first] = 'sideways' }) -- somebody else's row
    local node = graph:nodes()[1].id
    assert.equal(C.RG_EARG, C.rg_graph_set_layout(graph._p, 1000, C.RG_NCHW))
    assert.equal(C.RG_EARG, C.rg_graph_set_layout(graph._p, -1, C.RG_NCHW))
    assert.equal(C.RG_EARG, C.rg_graph_set_layout(graph._p, node, C.RG_NHWC + 1))
    assert.equal(C.RG_EARG, C.rg_graph_set_layout(graph._p, node, -2))
  end)

  it('stands in the text of a graph', function()
    local graph = ridge.inference(ridge.graph, net(), ridge.ones(1, 32, 8, 8))
    local some = marked(graph, { [layouts.kinds(graph)[1]] = 'last' })
    assert.is_false(some:same(graph))
    assert.is_true(some:same(ridge.graph.parse(tostring(some))))
  end)

  it('is tried by max-autotune, kept where it is faster, and obeyed', function()
    local f, x = net(), ridge.randn(1, 32, 12, 12)
    local before, tried = timing.medians, nil
    local function compiled(part)
      tried = 0
      timing.medians = function(list) -- of two plans the second one is another way
        for _, g in ipairs(list) do g() end
        if #list ~= 2 then return { 9 } end
        local plain = debug.traceback():find('tune_layouts', 1, true) == nil
        tried = tried + (plain and 0 or 1)
        return { 100, plain and 100 or 100 * part }
      end
      local c = ridge.inference(ridge.compile, f, { mode = 'max-autotune', say = function() end })
      local y, found = ridge.inference(c, x), nil
      timing.medians = before
      close(ridge.inference(f, x), y)
      for size in c.shelf:each() do found = lie(size.made.plan.emitted) end
      return found
    end
    local function rows()
      local list = {}
      for _, row in ipairs(kept.all()) do
        if row.operation == 'layout' then list[#list + 1] = row end
      end
      return list
    end

    assert.equal('nhwc nhwc nhwc', compiled(0.99))
    assert.equal(3, tried)
    assert.equal(3, #rows())
    for _, row in ipairs(rows()) do
      assert.equal(layouts.FOUND, row.path)
      assert.equal(99e6, row.times.first.ns)
    end
    choices.forget()
    local found = compiled(0.5)
    assert.matches('nchw', found)
    local n = 0
    for _, row in ipairs(rows()) do n = n + (row.path == 'first' and 1 or 0) end
    assert.is_true(n > 0)
    assert.equal(found, compiled(0.5)) -- from what was kept
    assert.equal(0, tried)
  end)
end)
