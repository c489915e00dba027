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

  it('says how long a sweep takes yet, at the rate since one began to look', function()
    local live = require 'ridge.sweep.live'
    local first = { done = 2, at_s = 10 }
    assert.equal(12, live.left(first, 5, 11, 16))
    assert.is_nil(live.left(first, 2, 11, 16)) -- nothing was done
    assert.is_nil(live.left(first, 1, 11, 16)) -- some came back
    assert.is_nil(live.left(first, 11, 11, 16)) -- more passes than planned have no end
    -- as typed, of a sweep that goes on: 3, 4, 4 and 6 of 6 passes, a look each ten seconds
    local clock, plain, store = require 'ridge.store.clock', require 'ridge.plain',
      require 'ridge.store'
    local st = store.open(db, 'read')
    local n, total = live.done(st, require('ridge.store.query').sweep(st, 'field'))
    st:close()
    assert.equal(n, total)
    local was, host = { live.summary, live.done, clock.seconds, clock.sleep, plain.print },
      package.loaded['ridge.host']
    package.loaded['ridge.host'] = { is_terminal = function() return false end }
    local looks, at, said, now = { 3, 4, 4, 6 }, 1, {}, 0
    live.summary = function()
      return looks[at] .. ' of 6', { pending = looks[at] < 6 and 1 or 0 }
    end
    live.done = function() return looks[at], 6 end
    clock.seconds = function() return now end
    clock.sleep = function() at, now = at + 1, now + 10 end
    plain.print = function(...) said[#said + 1] = table.concat { ... } end
    local ok, status = pcall(require('ridge.cli.watch').main, { 'field', '--db', db })
    live.summary, live.done, clock.seconds, clock.sleep, plain.print = unpack(was)
    package.loaded['ridge.host'] = host
    assert(ok, status)
    assert.equal(0, status)
    assert.same({ '3 of 6\n', '4 of 6 · 20 s left\n', '6 of 6\n' }, said)
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

  it('moves no cursor where the terminal has none: with TERM=dumb it prints lines', function()
    local home = program.folder()
    local function typed(...)
      local term = program.prompt(home, { TERM = 'dumb', NO_COLOR = '', RIDGE_DB = db,
        RIDGE_LOCKS = home .. '/locks' }, { ... })
      local status = term:wait()
      return term.output, status
    end
    local seen, status = typed('watch', 'field')
    assert.equal(0, status)
    assert.matches('^field  11 ok, 1 error of 12', seen)
    assert.is_nil(seen:find '\27')
    local m = require('ridge').monitor { tensorboard = home .. '/one', total = 2 }
    for i = 1, 2 do m:record { loss = 1 / i } end
    m:close()
    seen, status = typed('watch', home .. '/one')
    assert.equal(0, status)
    assert.matches('loss 0%.5.*ended\r?\n$', seen)
    assert.is_nil(seen:find '\27')
    seen = typed('sweep', folder .. '/field.lua', '--no-calibrate', '--new', '--no-reuse')
    assert.matches('12/12', seen)
    assert.is_nil(seen:find '\27')
    program.remove(home)
  end)
end)
