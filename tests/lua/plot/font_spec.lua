-- SPDX-License-Identifier: MIT
--- Which typeface figures are set in, by what a fontconfig of the test's own says is there; what it
--- made is given back.

local ffi = require 'ffi'
local library = require 'ridge.ffi.library'

-- The family that is chosen where these are there, false for no fontconfig, nil for one that does
-- not begin; and how many patterns, lists of names and sets were made and not given back.
local function chosen(families)
  local open, held = library.open, { pattern = 0, names = 0, set = 0 }
  local function made(kind)
    held[kind] = held[kind] + 1
    return kind
  end
  local function gone(kind) held[kind] = held[kind] - 1 end
  local kept = {}
  local fc = { FcInit = function() return families and 1 or 0 end,
    FcPatternCreate = function() return made 'pattern' end, FcPatternDestroy = gone,
    FcObjectSetCreate = function() return made 'names' end, FcObjectSetDestroy = gone,
    FcObjectSetAdd = function(set, name) assert.same({ 'names', 'family' }, { set, name }) end }
  function fc.FcFontList(config, pattern, names)
    assert.same({ 'pattern', 'names' }, { pattern, names })
    assert.is_nil(config)
    made 'set'
    local fonts = {}
    for i, list in ipairs(families) do fonts[i - 1] = list end
    return { nfont = #families, fonts = fonts }
  end
  function fc.FcFontSetDestroy() gone 'set' end
  function fc.FcPatternGetString(font, what, n, slot)
    assert.equal('family', what)
    if not font[n + 1] then return 1 end
    kept[#kept + 1] = ffi.new('unsigned char[?]', #font[n + 1] + 1, font[n + 1])
    slot[0] = kept[#kept]
    return 0
  end
  library.open = function(name)
    assert.equal('libfontconfig.so.1', name)
    return families ~= false and fc or nil
  end
  local own = package.loaded['ridge.plot.font']
  package.loaded['ridge.plot.font'] = nil
  local ok, family = pcall(function()
    local font = require 'ridge.plot.font'
    local first = font.default()
    library.open = function() error 'it is asked once' end
    assert.equal(first, font.default())
    return first
  end)
  library.open, package.loaded['ridge.plot.font'] = open, own
  assert(ok, family)
  assert.same({ pattern = 0, names = 0, set = 0 }, held)
  return family
end

describe('the typeface', function()
  it('is the first of the preferred ones that is there, by any of its names', function()
    assert.equal('Inter', chosen { { 'DejaVu Sans' }, { 'Roboto' }, { 'Inter' } })
    assert.equal('Roboto', chosen { { 'DejaVu Sans', 'Other' }, { 'Other', 'Roboto' } })
    assert.equal('DejaVu Sans', chosen { { 'Zork' }, { 'DejaVu Sans' } })
  end)

  it('is some font where none of them is there, and strokes where there is none', function()
    assert.equal('sans', chosen { { 'Zork' } })
    assert.equal('@cairo:', chosen {})
    assert.equal('@cairo:', chosen(false))
    assert.equal('@cairo:', chosen(nil))
  end)
end)
