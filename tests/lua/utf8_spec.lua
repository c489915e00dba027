-- SPDX-License-Identifier: MIT
--- Texts of any bytes as UTF-8: the borders of the table of well-formed sequences (Unicode 3.9,
--- table 3-7), each byte one step outside of it.
local clean = require('ridge.utf8').clean

local UNKNOWN = '\239\191\189'

describe('utf8.clean', function()
  it('keeps what is UTF-8, up to the borders of each length', function()
    for _, text in ipairs { '', 'plain', '\127', '\194\128', '\223\191', '\224\160\128',
        '\237\159\191', '\238\128\128', '\239\191\191', '\240\144\128\128', '\244\143\191\191',
        'n\195\164me \226\130\172 \240\159\152\128' } do
      assert.equal(text, clean(text))
      assert.equal('<' .. text .. '>' .. text, clean('<' .. text .. '>' .. text))
    end
  end)

  it('gives each byte that begins no character the sign for what is unknown', function()
    for _, case in ipairs {
      { '\128', 1 }, { '\191', 1 }, { '\192\128', 2 }, { '\193\191', 2 }, -- too long
      { '\224\159\128', 3 }, { '\240\143\128\128', 4 },
      { '\237\160\128', 3 }, { '\237\191\191', 3 }, -- halves of pairs
      { '\244\144\128\128', 4 }, { '\245\128\128\128', 4 }, { '\255', 1 }, -- beyond the last one
      { '\195', 1 }, { '\226\130', 2 }, { '\240\159\152', 3 }, -- cut off
    } do
      assert.equal(UNKNOWN:rep(case[2]), clean(case[1]))
      assert.equal('a' .. UNKNOWN:rep(case[2]) .. 'z', clean('a' .. case[1] .. 'z'))
    end
  end)

  it('takes nothing for the second, third or fourth byte that is none', function()
    for _, follows in ipairs { '\0', 'A', '\127', '\192', '\255' } do
      local shown = follows:byte() < 128 and follows or UNKNOWN
      for _, text in ipairs { '\194', '\226\130', '\240\159\152' } do
        assert.equal(UNKNOWN:rep(#text) .. shown, clean(text .. follows))
      end
    end
    assert.equal(UNKNOWN .. 'A' .. UNKNOWN, clean '\226A\130')
    assert.equal(UNKNOWN .. 'A' .. UNKNOWN:rep(2), clean '\240A\159\152')
  end)
end)
