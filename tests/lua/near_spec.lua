-- SPDX-License-Identifier: MIT
local near = require 'ridge.near'

describe('near misses', function()
  it('counts a swap of neighbours as one slip', function()
    assert.equal(1, near.distance('raet', 'rate'))
    assert.equal(1, near.distance('stride', 'strid'))
    assert.equal(3, near.distance('kitten', 'sitting'))
    assert.equal(4, near.distance('', 'four'))
  end)

  -- The definition, read backwards from the ends: what the last step was.
  local function slips(a, b)
    local i, j = #a, #b
    if i == 0 or j == 0 then return i + j end
    local best = math.min(slips(a:sub(1, -2), b) + 1, slips(a, b:sub(1, -2)) + 1,
      slips(a:sub(1, -2), b:sub(1, -2)) + (a:sub(-1) == b:sub(-1) and 0 or 1))
    if i > 1 and j > 1 and a:sub(-2) == b:sub(-2):reverse() then
      best = math.min(best, slips(a:sub(1, -3), b:sub(1, -3)) + 1)
    end
    return best
  end

  it('counts as the definition says, for all short words', function()
    local words = { '' }
    for k = 1, 13 do -- of up to three letters of three
      for letter in ('abc'):gmatch '.' do words[#words + 1] = words[k] .. letter end
    end
    assert.equal(40, #words)
    words[41], words[42] = 'abca', 'bacc'
    for _, a in ipairs(words) do
      for _, b in ipairs(words) do
        assert.equal(slips(a, b), near.distance(a, b), a .. ' ' .. b)
      end
    end
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
