-- SPDX-License-Identifier: MIT
local annotations = require 'ridge.repl.annotations'
local help = require 'ridge.repl.help'

local SOURCE = [==[
-- SPDX-License-Identifier: MIT
--- What the module is.
-- More of it.

local M = {}

--- Add two numbers.
-- It goes on here.
---@param a number the first
---@param f fun(x: number, y: number): number what to do
---@param opts? {deep: boolean, n: integer} how
---   and more of it
---@return number|nil sum nil if there is none
-- >> M.add(1, 2)   --> 3
function M.add(a, f,
               opts)
  return a, f, opts
end

local hidden = 1 -- not a docstring
--- A method.
function M:method() return hidden end

--- Assigned.
M.other = function(x) return x end

--- Local.
local function quiet(x) return x end

function M.bare() return quiet() end

return M
]==]

describe('docstrings', function()
  local entries, module = annotations.parse(SOURCE)

  it('describe the module and each function', function()
    assert.equal('What the module is.\nMore of it.', module)
    local names = {}
    for i, entry in ipairs(entries) do names[i] = entry.name end
    assert.same({ 'add', 'method', 'other', 'quiet' }, names)
    assert.is_true(entries[2].method)
    assert.is_true(entries[1].returned)
    assert.is_nil(entries[4].owner)
  end)

  it('have parameters, types with blanks in them, results and examples', function()
    local add = entries[1]
    assert.equal('Add two numbers.\nIt goes on here.', add.text)
    assert.equal('a, f, opts', add.parameters)
    assert.same({ name = 'a', type = 'number', text = 'the first' }, add.params[1])
    assert.equal('fun(x: number, y: number): number', add.params[2].type)
    assert.equal('what to do', add.params[2].text)
    assert.equal('{deep: boolean, n: integer}', add.params[3].type)
    assert.equal('how and more of it', add.params[3].text)
    assert.equal('number|nil', add.returns[1].type)
    assert.same({ 'M.add(1, 2)   --> 3' }, add.examples)
    assert.equal(15, add.line)
  end)
end)

describe('help', function()
  it('shows a function found by the value it is', function()
    local text = assert(help.lookup('f', { f = require('ridge.near').distance }))
    assert.truthy(text:find('f(a, b)', 1, true))
    assert.truthy(text:find('ridge/near.lua', 1, true))
    assert.truthy(text:find('How many slips', 1, true))
    assert.truthy(text:find('a%s+string%s+one word\n%s+b%s+string%s+the other\n'
      .. '%s+returns%s+integer%s+distance'), text)
  end)

  it('shows a function found by its name, and a module', function()
    assert.truthy(help.lookup('ridge.near.hint', {}):find('ridge.near.hint(word, names)', 1, true))
    assert.truthy(help.lookup('ridge.near', {}):find('distance(a, b)', 1, true))
  end)

  it('describes every class and function of what one types', function()
    local ridge, tried = require 'ridge', 0
    for _, room in ipairs { 'nn', 'optim', 'data', 'measure', 'memory', 'device', 'plot' } do
      local names = {}
      for name in pairs(ridge[room]) do names[#names + 1] = name end
      local meta = getmetatable(ridge[room])
      for name in pairs(meta and meta.late or {}) do names[#names + 1] = name end
      for _, name in ipairs(names) do
        local topic = ('ridge.%s.%s'):format(room, name)
        local text = assert(help.lookup(topic, {}), topic)
        assert.is_nil(text:find ' is a table', topic)
        tried = tried + 1
      end
    end
    assert.is_true(tried > 80, tried)
  end)

  it('lists near names for a misspelt one', function()
    local text, reason = help.lookup('distnace', {})
    assert.is_nil(text)
    assert.truthy(reason:find('distance', 1, true))
  end)

  it('finds what users call in any case, before what ridge keeps to itself', function()
    for _, topic in ipairs { 'linear', 'Linear', 'LINEAR', 'nn.linear', 'ridge.nn.linear',
      'ridge.NN.Linear' } do
      local text = assert(help.lookup(topic, {}), topic)
      assert.equal('ridge.nn.Linear(n_in, n_out, opts)', text:match '^[^%)]*%)')
    end
    assert.matches('\nalso: ridge%.plot%.scale%.linear$', help.lookup('linear', {}))
    assert.matches('^Tensor:relu%(%).*\nalso: ridge%.nn%.ReLU$', help.lookup('relu', {}))
    assert.matches('^Tensor:softmax', help.lookup('Softmax', {}))
    assert.matches('^ridge%.nn ', help.lookup('ridge.NN', {}))
    assert.matches('^ridge%.optim%.AdamW\n.*weight_decay = 0.01', help.lookup('adamw', {}))
  end)

  it('takes methods of every module for what users call', function()
    local text = help.lookup('analyze', {})
    assert.matches("^several are called 'analyze':\n  ridge%.nn%.module:analyze ", text)
    assert.matches('^ridge%.nn%.module:train%(on%)', help.lookup('train', {}))
  end)

  it('finds methods of public classes by the name of the class', function()
    for topic, title in pairs { ['Sequential:add'] = 'ridge.nn.Sequential:add(module)',
        ['linear.facts'] = 'ridge.nn.Linear:facts()',
        ['Adam:step'] = 'ridge.optim.Adam:step(',
        ['optim.Adam:step'] = 'ridge.optim.Adam:step(',
        ['LSTM:clone'] = 'ridge.nn.LSTM:clone()' } do
      local text = assert(help.lookup(topic, {}))
      assert.equal(title, text:sub(1, #title))
    end
    assert.is_nil((help.lookup('Sequential:ad', {})))
  end)

  it('lists near names below the owner that was typed, with it', function()
    for topic, name in pairs { ['ridge.nn.Liner'] = 'ridge.nn.Linear', ['ridge.tp'] = 'ridge.top',
      ['nn.LSTMM'] = 'ridge.nn.LSTM', ['ridge.optim.Admw'] = 'ridge.optim.AdamW',
      ['Linaer'] = 'ridge.nn.Linear', ['y.sum'] = 'Tensor:sum' } do
      local text, reason = help.lookup(topic, {})
      assert.is_nil(text)
      assert.truthy(reason:find(name, 1, true), reason)
    end
  end)

  it('lists five near names at most', function()
    local _, reason = help.lookup('nothing:step', {}) -- many have a step
    local _, commas = reason:match('; near: (.*)$'):gsub(', ', '')
    assert.equal(4, commas, reason)
  end)

  it('shows how a command is called', function()
    -- all names that are commands and calls, by hand, but for doctor, which needs the program
    for _, name in ipairs { 'top', 'show', 'retry', 'export', 'watch', 'replay', 'db',
      'replot' } do
      local text = assert(help.lookup('ridge.' .. name, {}))
      assert.truthy(text:find('ridge.' .. name .. '(words ..., { option = value })', 1, true), text)
      assert.truthy(text:find('as in the shell: ridge ' .. name .. ' ', 1, true), text)
    end
  end)

  it('knows classes that a function made, and names without ridge before them', function()
    local env = { ridge = require 'ridge' }
    assert.truthy(help.lookup('ridge.nn.LSTM', env):find('the state {h, c}', 1, true))
    assert.truthy(help.lookup('nn.ReLU', env):find('relu of each element', 1, true))
    assert.truthy(help.lookup('nn.cross_entropy', env):find('Cross entropy of scores', 1, true))
  end)

  it('searches words', function()
    assert.truthy(help.lookup('"slips of the hand"', {}):find('ridge.near.distance', 1, true))
    assert.truthy(help.lookup('"no such words at all"', {}):find 'nothing')
  end)

  it('has an overview, and survives any topic', function()
    assert.truthy(help.lookup('', {}):find 'Ctrl%-R')
    for _, topic in ipairs { '.', ':', '..', 'a.b.c', '%', '(', '"', '"(', '1', '_G',
      'string.format', 'nil', 'x[1]' } do
      local trap = setmetatable({}, { __index = function() error 'called' end })
      assert.has_no.errors(function() help.lookup(topic, { a = trap }) end)
    end
  end)
end)
