-- SPDX-License-Identifier: MIT
-- Models as text: what they mean, what is refused and how.

local layer = require 'ridge.bench.layer'
local blame = require 'ridge.blame'

local function build(text, values)
  return layer.build(layer.with(layer.parse(text), values or {}), 1)
end

local function refused(text, pattern, values)
  local ok, err = pcall(build, text, values)
  assert.is_false(ok, text)
  assert.is_true(blame.is_error(err), tostring(err))
  assert.truthy(tostring(err):find(pattern), tostring(err))
end

describe('a model as text', function()
  it('is a layer with its sizes in order or by name', function()
    local f = build('linear{12,5}'):facts()
    assert.same({ 12, 5 }, { f.n_in, f.n_out })
    f = build(' sketched { 64 , 32 , low_rank = 4, num_terms=2 } '):facts()
    assert.same({ 64, 32, 2, 4 }, { f.n_in, f.n_out, f.num_terms, f.low_rank })
    f = build('sklinear{64,32,3,5}'):facts()
    assert.same({ 3, 5 }, { f.num_terms, f.low_rank })
    f = build('lowrank{64,32,6,bias=false,act=gelu}'):facts()
    assert.same({ 6, 'gelu', 64 * 6 + 6 * 32 }, { f.low_rank, f.activation, f.trainable_count })
  end)

  it('builds an mlp with activations between its layers and none behind the last', function()
    local net, n_in = build 'mlp{20,16,8,4,act=gelu}'
    assert.equal(20, n_in)
    local acts = {}
    for i, child in ipairs(net.children) do acts[i] = child.module:facts().activation end
    assert.same({ 'gelu', 'gelu', 'none' }, acts)
    assert.equal('relu', build('mlp{4,3,2}').children[1].module:facts().activation)
  end)

  it('builds a sequence of layers and activations', function()
    local net, n_in = build 'sequential{linear{6,5},relu,sequential{linear{5,4},tanh{}}}'
    assert.equal(6, n_in)
    assert.equal(4, net:len())
    local x = require('ridge').ones(2, 6)
    assert.same({ 2, 4 }, { net(x).shape[1], net(x).shape[2] })
  end)

  it('has weights that depend on the seed alone', function()
    local a, b = build 'linear{8,8}', build 'linear{8,8}'
    assert.equal(0, (a.weight - b.weight):norm():item())
    local other = layer.build(layer.parse 'linear{8,8}', 2)
    assert.is_true((a.weight - other.weight):norm():item() > 0)
  end)

  it('takes parameters where numbers belong', function()
    local node = layer.parse 'sequential{mlp{w,16,w},sketched{w,8,low_rank=R}}'
    assert.same({ 'R', 'w' }, layer.parameters(node))
    local net, n_in = layer.build(layer.with(node, { w = 32, R = 2 }), 1)
    assert.equal(32, n_in)
    assert.equal(2, net.children[3].module:facts().low_rank)
    assert.same({ 'R', 'w' }, layer.parameters(node)) -- the first one is as it was
  end)

  it('says the near miss of a name', function()
    refused('lienar{1,2}', "no layer 'lienar' %(did you mean 'linear'%?%)")
    refused('linear{1,2,act=rellu}', "did you mean 'relu'")
    refused('linear{1,2,ac=relu}', "linear has no 'ac' %(did you mean 'act'%?%)")
    refused('linear{width,2}', "did you mean 'widht'", { widht = 3 })
  end)

  it('is a text, and nothing else', function()
    local ok, err = pcall(layer.parse, 5)
    assert.is_false(ok)
    assert.equal('EARG', err.code)
    assert.matches('a model is a text like .*, got number', err.message)
  end)

  it('says what is missing, too much, or does not fit', function()
    refused('linear{1}', 'at least 2 numbers %(n_in, n_out%), got 1')
    refused('linear{1,2,3}', 'at most 2 numbers')
    refused('linear{1,2,n_in=3}', 'n_in stands twice')
    refused('lowrank{2,3}', 'wants rank')
    refused('linear{1.5,2}', '1.5 is not a size')
    refused('linear{0,2}', '0 is not a size')
    refused('linear{1,2e13}', '2e13 is not a size')
    refused('linear{1,1099511627777}', '1099511627777 is not a size')
    assert.equal(2 ^ 40, layer.parse('linear{1,1099511627776}').options.n_out)
    refused('linear{1,2,bias=maybe}', "bias is true or false, not 'maybe'")
    refused('linear{1,2,bias=}', "bias is true or false, not '}'")
    refused('linear{1,2,act=}', "act is one of [^;]*, not '}'")
    refused('linear{1,2,bias=', 'bias is true or false, not the end')
    refused('linear{1,2,act=siluu}', "act is one of .*, not 'siluu' %(did you mean 'silu'%?%)")
    refused('linear{1,2,acct=relu}', "linear has no 'acct'.*known: .*act.*")
    refused('linear{1,2', "',' or '}' is expected at the end")
    refused('linear{1,2,}', "a number is expected at '}'")
    refused('linear{1,2} linear', "it goes on at 'linear'")
    refused('sequential{}', 'no layers')
    refused('relu', 'no input size')
    refused('sequential{linear{3,4},relu,linear{5,6}}',
      'layer 3 %(linear%) takes 5 numbers, the one before it %(linear%) gives 4')
    refused('linear{w,2}', 'w is 2.5; sizes are whole', { w = 2.5 })
    refused(('sequential{'):rep(50) .. 'relu' .. ('}'):rep(50), 'nested too deeply')
  end)

  it('runs nothing', function()
    for _, text in ipairs { 'os.exit()', 'linear{os.time(),2}', 'linear{1,2};os.exit(1)', '(1)',
        'linear{"1",2}', '' } do
      assert.is_false((pcall(build, text)), text)
    end
  end)
end)
