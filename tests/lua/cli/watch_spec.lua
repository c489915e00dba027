-- SPDX-License-Identifier: MIT
-- `ridge watch` as typed, and the map above the progress line of a run in a terminal.

local folders = dofile 'tests/lua/store/folder.lua'
local program = dofile 'tests/lua/repl/program.lua'

local RECIPE = [[
local ridge = require 'ridge'
return ridge.sweep 'field' {
  space = { a = { 1, 2, 3, 4 }, b = { 1, 2, 3 } },
  measure = function(p, _, m)
    if p.a == 2 and p.b == 3 then error('not this one' .. (' at all'):rep(20)) end
    m:metric('value', p.a * p.b, { better = 'lower' })
  end,
}
]]

describe('ridge watch', function()
  local folder, db

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local file = io.open(folder .. '/field.lua', 'w')
    file:write(RECIPE)
    file:close()
  end)
  teardown(function() folders.remove(folder) end)

  local function ridge(words)
    return folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words))
  end

  it('says in one line how far a sweep is, and ends with it', function()
    local _, status = ridge(('sweep %s/field.lua --no-calibrate --progress off'):format(folder))
    assert.equal(2, status)
    local text
    text, status = ridge 'watch field'
    assert.equal(0, status)
    assert.equal('field  11 ok, 1 error of 12\n', (text:gsub('   grades.*\n', '\n')))
    text, status = ridge 'watch field --once -z value'
    assert.equal(0, status)
    assert.is_nil(text:find '\27')
    text, status = ridge 'watch filed'
    assert.equal(1, status)
    assert.matches("did you mean 'field'", text)
    text, status = ridge 'watch'
    assert.equal(1, status)
    assert.matches('a sweep is missing', text)
  end)

  it('shows the map in a terminal, and so does a run', function()
    local home = program.folder()
    local function typed(words)
      local term = program.prompt(home, { TERM = 'xterm-256color', COLORTERM = 'truecolor',
        NO_COLOR = '', RIDGE_DB = db, RIDGE_LOCKS = home .. '/locks' }, words)
      local status = term:wait()
      return term.output, status
    end
    local seen, status = typed { 'watch', 'field', '--once', '-z', 'value' }
    assert.equal(0, status)
    assert.matches('[ab] upwards', seen)
    assert.truthy(seen:find('▀', 1, true))
    assert.matches('error: measure: .*not this one', seen)
    local colour = require 'ridge.show.colour'
    for line in seen:gsub('\27%[%d*[AJK]', ''):gmatch '[^\r\n]+' do -- none goes on in the next one
      assert.is_true(colour.width(line) <= 80, colour.strip(line))
    end
    seen, status = typed { 'sweep', folder .. '/field.lua', '--no-calibrate', '--new',
      '--no-reuse' }
    assert.equal(2, status, seen)
    assert.matches('field%-2 12/12', seen)
    -- nothing is timed here, so there is no phase to colour: the map is that of the metric
    assert.truthy(seen:find('▀', 1, true), seen)
    seen = typed { 'sweep', folder .. '/field.lua', '--no-calibrate', '--progress', 'bar' }
    assert.is_nil(seen:find('▀', 1, true))
    program.remove(home)
  end)
end)
