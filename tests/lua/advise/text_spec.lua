-- SPDX-License-Identifier: MIT
--- Advice that is told as text: what applies first, which net it is of, the lines that it is about.

local checklists = require 'ridge.advise.checklists'
local text = require 'ridge.advise.text'

local function advice(more)
  local a = { what = 'a function', device = 'cpu', lines = { 1, 2, 3 },
    counts = { applies = 1, no = 1, unknown = 1 }, findings = {
      { name = 'loss_scale', state = 'no', why = 'not here', measured = 'a number', try = {},
        lines = '000 memory 1' },
      { name = 'compile', state = 'applies', why = 'because', try = { { what = 'this',
        measure = 'that' }, { what = 'more', measure = 'less' } }, lines = 'x 1, y 2' },
      { name = 'own_name', state = 'unknown', why = 'who knows', try = {}, lines = 'z 3' } } }
  for key, value in pairs(more or {}) do a[key] = value end
  return a
end

describe('advice as text', function()
  it('has what applies, what could not be told, what does not apply', function()
    assert.equal([[
a function on cpu: of 3 lines 1 apply, 1 do not, 1 could not be told
What applies, in the order to begin with:
  plan (compilation): because
    try this
      measured by that
    try more
      measured by less
    (x 1, y 2)
What could not be told:
  own name: who knows
    (z 3)
What does not apply:
  scale of the loss: not here
    measured: a number
    (000 memory 1)]], text.text(advice()))
    assert.equal('a function on cpu: of 3 lines 1 apply, 1 do not, 1 could not be told',
      text.text(advice { findings = {} }))
  end)

  it('says which net it is of, of how many rows, and what ended it', function()
    local function head(more)
      more.findings = {}
      return text.text(advice(more))
    end
    local rest = ': of 3 lines 1 apply, 1 do not, 1 could not be told'
    assert.equal('a function of nn.Linear on cpu, 8 rows' .. rest,
      head { net = 'nn.Linear', rows = 8 })
    assert.equal('a function on cpu, 1 row' .. rest, head { rows = 1 })
    assert.equal('a function on cpu' .. rest, head { others = 0 })
    assert.equal('a function on cpu' .. rest .. ' (the largest of 2 nets that ran)',
      head { others = 1 })
    assert.equal('a function on cpu' .. rest .. ' (the largest of 3 nets that ran)',
      head { others = 2 })
    assert.equal('a function on cpu' .. rest .. '\nit raised: a word', head { raised = 'a word' })
  end)

  it('has a row for each line', function()
    local got = text.lines { { source = 's', number = 1, state = 'applies', text = 'first',
      finding = { name = 'compile' } }, { source = 's', number = 2, state = 'no', text = 'second',
      finding = { name = 'x_y' } }, { source = 't', number = 1, state = 'unknown', text = 'third',
      finding = { name = 'noise' } } }
    assert.equal('line  here               finding             what it says\n'
      .. 's 1   applies            plan (compilation)  first\n'
      .. 's 2   does not apply     x y                 second\n'
      .. 't 1   could not be told  noisy gradients     third', (got:gsub(' +\n', '\n')))
  end)
end)

describe('the lines of a finding', function()
  it('are all that speak of it, in the order of their sources', function()
    local was = checklists.SOURCES
    checklists.SOURCES = { { name = 'one', lines = { { 'w', 'a' }, { 'x', 'b' }, { 'y', 'a' } } },
      { name = 'two', lines = { { 'z', 'a' } } } }
    local a, b, none = checklists.of 'a', checklists.of 'b', checklists.of 'c'
    checklists.SOURCES = was
    assert.same({ 'one 1, one 3, two 1', 'one 2', '' }, { a, b, none })
  end)
end)
