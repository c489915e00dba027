-- SPDX-License-Identifier: MIT
-- Pictures in terminals: what a terminal can, maps as half blocks, whole images.

local plot = require 'ridge.plot'
local terminal = require 'ridge.plot.terminal'

local function env(values) return function(name) return values[name] end end

local function rows()
  local out = {}
  for a = 1, 4 do
    for b = 1, 3 do
      out[#out + 1] = { trial = #out + 1, state = 'ok', a = a, b = b * 10, fwd = a * b * 100,
        fwd_lo = a * b * 99, fwd_hi = a * b * 101, grade = 'A' }
    end
  end
  out[5].state, out[5].fwd = 'oom', nil
  out[6].state, out[6].fwd = 'pending', nil
  return out
end

local function map() return plot.draw('map', rows(), { x = 'a', y = 'b', z = 'fwd' }) end

describe('a terminal', function()
  it('has the colours that it says, and none where nobody sees them', function()
    local depth = terminal.depth
    assert.equal('none', depth(false, env { TERM = 'xterm-256color', COLORTERM = 'truecolor' }))
    assert.equal('true', depth(true, env { TERM = 'xterm', COLORTERM = 'truecolor' }))
    assert.equal('256', depth(true, env { TERM = 'screen-256color' }))
    assert.equal('none', depth(true, env { TERM = 'vt100' }))
    assert.equal('none', depth(true, env { TERM = 'dumb', COLORTERM = 'truecolor' }))
    assert.equal('none', depth(true, env { TERM = 'xterm-256color', NO_COLOR = '1' }))
  end)

  it('shows a text in a colour by what it can', function()
    local c = require('ridge.plot.color').hex '#336699'
    assert.equal('\27[38;2;51;102;153ma\27[0m', terminal.tint('a', c, 'true'))

    assert.equal('a', terminal.tint('a', c, 'none'))
  end)

  it('takes whole images by the protocol it is known for', function()
    assert.equal('kitty', terminal.protocol(env { TERM = 'xterm-kitty' }))
    assert.equal('iterm2', terminal.protocol(env { TERM_PROGRAM = 'WezTerm' }))
    assert.is_nil(terminal.protocol(env { TERM = 'xterm-256color' }))
    assert.is_nil(terminal.protocol(env { TERM = 'xterm-kitty', TMUX = '/tmp/x' }))
    assert.equal(terminal.protocol(os.getenv), terminal.protocol())
    for text, code in pairs { [''] = '', f = 'Zg==', fo = 'Zm8=', foo = 'Zm9v',
        foobar = 'Zm9vYmFy', ['\0\255\128'] = 'AP+A' } do
      assert.equal(code, terminal.base64(text))
    end
    local image = terminal.image(('x'):rep(7000), 'kitty')
    assert.matches('^\27_Ga=T,f=100,m=1;', image)
    assert.equal(3, select(2, image:gsub('\27_G', '')))
    assert.matches('\27_Gm=0;[%w+/=]*\27\\\n$', image)
  end)
end)

describe('a map in a terminal', function()
  it('is half blocks in the colours of the picture', function()
    local lines = terminal.lines(map(), { depth = 'true', columns = 60, lines = 12 })
    local text = table.concat(lines, '\n')
    assert.matches('b upwards, a across', lines[1], 1, true)
    assert.truthy(text:find('▀', 1, true))
    -- the fastest cell has the palest colour of the ramp
    local pale = require('ridge.plot.color').magnitude(1, 'dark')
    assert.truthy(text:find(('38;2;%d;%d;%d'):format(pale[1] * 255 + 0.5, pale[2] * 255 + 0.5,
      pale[3] * 255 + 0.5), 1, true))
    for _, word in ipairs { 'M out of memory', '· not yet', '◆ best' } do
      assert.truthy(text:find(word, 1, true), word)
    end
    -- every line ends in plain, and none is wider than the terminal
    for _, line in ipairs(lines) do
      local plain = line:gsub('\27%[[%d;]*m', '')
      assert.is_true(select(2, plain:gsub('[^\128-\191]', '')) <= 60)
      if line:find '\27' then assert.truthy(line:find '\27%[0m[^\27]*$') end
    end
  end)

  it('gives each cell as many pixels, in colours that fall with its value', function()
    local whole = rows()
    for i = 5, 6 do whole[i].state, whole[i].fwd = 'ok', whole[i].a * whole[i].b * 10 end
    local figure = plot.draw('map', whole, { x = 'a', y = 'b', z = 'fwd' })
    for columns, wide in pairs { [40] = 8, [24] = 4, [11] = 2 } do
      local seen = 0
      for _, line in ipairs(terminal.lines(figure, { depth = 'true', columns = columns,
        lines = 30 })) do
        local widths, last = {}, 1e9
        for r, g, b, text in line:gmatch '38;2;(%d+);(%d+);(%d+);48;[%d;]+m([^\27]+)' do
          if r + g + b < last then last = r + g + b else last = 0 end
          widths[#widths + 1] = select(2, text:gsub('▀', ''))
        end
        if #widths == 4 and last > 0 then
          assert.same({ wide, wide, wide, wide }, widths)
          seen = seen + 1
        end
      end
      assert.is_true(seen >= 2, columns)
    end
  end)

  it('fits narrow terminals and has 256 colours where there are no more', function()
    local lines = terminal.lines(map(), { depth = '256', columns = 14, lines = 4 })
    local text = table.concat(lines, '\n')
    assert.truthy(text:find '38;5;%d')
    assert.is_nil(text:find('38;2;', 1, true))
    -- 16 to 231 are a cube of 6 shades of red, green and blue: the same colours as in 24 bits
    local function said(depth)
      return table.concat(terminal.lines(map(), { depth = depth, columns = 60, lines = 12 }))
    end
    local want, got = {}, {}
    for r, g, b in said 'true':gmatch '8;2;(%d+);(%d+);(%d+)' do
      local function shade(v) return math.floor(v / 51 + 0.5) end
      want[16 + 36 * shade(r) + 6 * shade(g) + shade(b)] = true
    end
    for number in said '256':gmatch '8;5;(%d+)' do got[tonumber(number)] = true end
    assert.same(want, got)
  end)

  it('is characters without a single sequence elsewhere', function()
    local text = terminal.show(map(), { is_terminal = false, env = env { TERM = 'xterm-kitty' } })
    assert.is_nil(text:find '\27')
    assert.matches('\n10 @@', text, 1, true) -- the fastest
    assert.matches('MM', text, 1, true)
    assert.matches("is worst, '@' best, of 100\226\128\175ns to 1.2\226\128\175µs", text, 1, true)
  end)

  it('of another kind is its title and caption', function()
    local figure = plot.draw('effects', rows(), { y = 'fwd', params = 'a,b' })
    local text = terminal.show(figure, { is_terminal = false })
    assert.matches('What matters for forward time', text, 1, true)
    assert.matches('moves the median by', text, 1, true)
  end)
end)
