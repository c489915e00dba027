-- SPDX-License-Identifier: MIT
-- What graphs tell of themselves: changes of passes, what passes are worth, memory, pictures.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local folders = dofile 'tests/lua/store/folder.lua'
local nn = ridge.nn

local function net()
  return nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.GELU(),
    nn.Linear(8, 4, { seed = 2 })):eval()
end

describe('graph:changes', function()
  it('says of each pass what it did, and runs nothing for good', function()
    local model = net()
    local count = ridge.zeros(1)
    local g = ridge.graph(function(x)
      count:add_(1)
      return ridge.no_grad(model, x) * 1
    end, ridge.randn(3, 6))
    local rows = g:optimize { 'arithmetic_identities', 'operator_fusion' }:changes()
    assert.equal(1, count[1]:item())
    local passes, nodes = {}, {}
    for i, row in ipairs(rows) do
      passes[i], nodes[i] = row.pass, row.nodes
      assert.is_true(row.same or row.difference < 1e-6)
      assert.is_true(row.flops <= row.flops_before and row.bytes <= row.bytes_before)
    end
    assert.same({ 'arithmetic_identities', 'batch_norm_folding', 'fold_affine', 'epilogue_fusion',
      'elementwise_fusion' }, passes)
    assert.same({ 4, 4, 4, 3, 3 }, nodes)
    assert.is_true(rows[1].same)
    assert.matches('arithmetic_identities +5 > 4', tostring(rows))
  end)

  it('tells how far a pass is off', function()
    ridge.graph.pass('three for two', function(graph)
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'mul' then
          local other = graph:insert('mul', node.inputs, { after = node,
            args = { scalar = 1, value = 3 } })
          graph:replace(node.outputs[1], other.outputs[1])
          graph:remove(node)
        end
      end
    end)
    local row = ridge.graph(function(x) return x * 2 end, ridge.ones(3))
      :optimize { 'three for two' }:changes()[1]
    assert.is_false(row.same)
    assert.equal(0.5, row.difference)
    local ok, err = pcall(function() ridge.graph(net(), ridge.ones(1, 6)):changes() end)
    assert.is_false(ok)
    assert.matches('no passes have run', tostring(err))
  end)

  it('knows the levels', function()
    local g = ridge.graph(function(x) return (x:exp() * 1):exp() end, ridge.ones(3))
    assert.equal(#g:optimize('standard'):nodes(), 1)
    local ok, err = pcall(function() g:optimize 'agressive' end)
    assert.is_false(ok)
    assert.matches("did you mean 'aggressive'", tostring(err))
  end)
end)

describe('graph:ablate', function()
  it('leaves each pass out in turn', function()
    local x = ridge.randn(64, 64)
    local h = ridge.graph(function(a) return (a:exp() * 0.5 + 1):sin() end, x)
      :optimize { 'dead_code_elimination', 'elementwise_fusion' }
    local before = bits.of(x)
    local rows = h:ablate(ridge.randn(64, 64), { blocks = 6, looks = 1, slot_ns = 2e5 })
    assert.equal(before == bits.of(x), false) -- the contents that were given
    assert.same({ true, false }, { rows[1].idle, rows[2].idle or false })
    assert.is_true(rows[2].ci_lo <= rows[2].ratio and rows[2].ratio <= rows[2].ci_hi)
    assert.is_true(rows[2].bytes > 0) -- what lay between
    assert.matches('elementwise_fusion', tostring(rows))
  end)
end)

describe('graph:memory', function()
  it('knows what is alive at once, and what a plan takes', function()
    local x = ridge.randn(256, 256)
    local m = ridge.graph(function(a) return a:exp():sin():cos():sum() end, x):memory()
    local one = 256 * 256 * 4
    assert.equal(2 * one, m.peak)
    assert.equal(2 * one, m.bound)
    assert.equal(one, m.outside)
    assert.equal('sin', m.at.op)
    assert.is_true(m.plan >= m.peak and m.plan <= 1.1 * m.peak, m.plan / m.peak)
    assert.matches('live at the peak +512', tostring(m))
    -- an output lives to the end, and a view is no memory of its own
    m = ridge.graph(function(a)
      local y = a:exp()
      return y, y:narrow(1, 1, 128):sin():cos():sin()
    end, x):memory()
    assert.equal(2 * one, m.peak)
    assert.equal(1.5 * one, m.bound)
  end)
end)

describe('graph:dot', function()
  it('writes each node, each edge and the names of inputs', function()
    local folder = folders.new()
    local path = folder .. '/net.dot'
    local g = ridge.graph(net(), ridge.ones(2, 6))
    g:dot(path)
    local file = io.open(path)
    local text = file:read '*a'
    file:close()
    folders.remove(folder)
    for _, node in ipairs(g:nodes()) do
      assert.truthy(text:find(('n%d [shape=box, label="%s'):format(node.id, node.op), 1, true))
    end
    local edges = select(2, text:gsub('%->', ''))
    assert.equal(8, edges) -- x w b, y, h w b, out
    assert.matches('1.weight\\nf32%[8,6%]', text)
  end)

  it('draws inputs, frames around bodies, outputs, and escapes what they are called', function()
    local x, w = { id = 1, kind = 'input', dtype = 'f32', shape = { 2, 3 } },
      { id = 2, kind = 'held', name = 'a "w" \\', dtype = 'bf16', shape = {} }
    local whole = { id = 5, op = 'lstm', module = 'rnn', inputs = { x } }
    local one = { id = 6, op = 'mul', inputs = { x, false, w }, body = {}, parent = whole }
    local two = { id = 7, op = 'exp', module = 'rnn.1', inputs = {}, body = {}, parent = one }
    whole.body = { one, two }
    local y = { id = 3, producer = one, dtype = 'f32', shape = { 3 } }
    two.inputs[1] = y
    local picture = require('ridge.graph_dot').picture {
      values = function() return { x, w, y } end, nodes = function() return { whole, one, two } end,
      outputs = function() return { { kind = 'result', value = y },
        { name = 'loss', kind = 'kept', value = x } } end }
    assert.equal([[
digraph ridge {
node [fontname="sans"];
v1 [shape=ellipse, label="input\nf32[2,3]"];
v2 [shape=note, label="a \"w\" \\\nbf16[]"];
subgraph cluster_5 { label="lstm rnn";
n6 [shape=box, label="mul"];
}
v1 -> n6 [label="f32[2,3]"];
v2 -> n6 [label="bf16[]"];
out1 [shape=ellipse, label="result"];
n6 -> out1;
out2 [shape=ellipse, label="loss"];
v1 -> out2;
}
]], picture)
    two.parent, two.module = whole, 'rnn.1'
    picture = require('ridge.graph_dot').picture {
      values = function() return {} end, nodes = function() return { whole, one, two } end,
      outputs = function() return {} end }
    assert.matches('n6 [shape=box, label="mul"];\nn7 [shape=box, label="exp\\nrnn.1"];\n}',
      picture, 1, true)
    assert.matches('\nn6 -> n7 [label="f32[3]"];', picture, 1, true)
  end)
end)
