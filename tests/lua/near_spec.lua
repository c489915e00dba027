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
