-- SPDX-License-Identifier: MIT
local near = require 'ridge.near'

describe('near misses', function()
  it('counts a swap of neighbours as one slip', function()
    assert.equal(1, near.distance('raet', 'rate'))
    assert.equal(1, near.distance('stride', 'strid'))
    assert.equal(3, near.distance('kitten', 'sitting'))
    assert.equal(4, near.distance('', 'four'))
  end)

  it('lists the nearest first and leaves out what is far', function()
    assert.same({ 'stride' }, near.names('strid', { 'bias', 'stride', 'padding', 'groups' }))
    assert.same({}, near.names('q', { 'bias', 'stride' }))
    assert.same({ 'landscape' }, near.names('land', { 'landscape', 'bench' }))
  end)

  it('gives a phrase to put behind a message', function()
    assert.equal(" (did you mean 'loss'?)", near.hint('lss', { 'loss', 'weight' }))
    assert.equal('', near.hint('xyz', { 'loss' }))
  end)
end)

it('a name far longer than any other is compared with none', function()
  local distance, n = near.distance, 0
  near.distance = function(...)
    n = n + 1
    return distance(...)
  end
  local found = near.names(('x'):rep(1e6), { 'stride', 'padding', 'x' })
  local close = near.names('strid', { 'stride', 'padding', 'x' })
  near.distance = distance
  assert.same({}, found)
  assert.same({ 'stride' }, close)
  assert.equal(2, n) -- of the second: the third is too short
end)
