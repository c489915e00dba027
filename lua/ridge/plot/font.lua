-- SPDX-License-Identifier: MIT
--
-- Which typeface a figure is set in.
--
-- Cairo's simple text interface accepts any family name and silently draws something else when it
-- is missing, so the question "is it there?" goes to fontconfig, which Cairo itself depends on.
-- The first family of a short list of good screen faces that exists wins; a bare Debian 12 has
-- DejaVu (libcairo2 brings it). Without any font, and without fontconfig, Cairo's built-in stroke
-- font `@cairo:` draws ASCII text everywhere, byte for byte the same.

local ffi = require 'ffi'
local library = require 'ridge.ffi.library'

local M = {}

--- Cairo's own font, which needs no file.
M.BUILT_IN = '@cairo:'

-- In order of preference: faces with open shapes and lining figures of one width first.
local PREFERRED = {
  'Inter', 'Source Sans 3', 'Source Sans Pro', 'IBM Plex Sans', 'Noto Sans', 'Open Sans', 'Roboto',
  'Fira Sans', 'Lato', 'Cantarell', 'Ubuntu', 'DejaVu Sans Condensed', 'Liberation Sans',
  'DejaVu Sans',
}

-- DejaVu Sans is a fifth wider than the others; its own condensed cut is the same drawing at 0.9.
-- A slight narrowing brings it to the colour of the rest without the cut being installed.
local NARROW = { ['DejaVu Sans'] = 0.92 }

local DECLARATIONS = [[
typedef struct _FcPattern FcPattern;
typedef struct _FcObjectSet FcObjectSet;
typedef struct { int nfont; int sfont; FcPattern **fonts; } FcFontSet;
int FcInit(void);
FcPattern *FcPatternCreate(void);
void FcPatternDestroy(FcPattern *pattern);
FcObjectSet *FcObjectSetCreate(void);
int FcObjectSetAdd(FcObjectSet *set, const char *object);
void FcObjectSetDestroy(FcObjectSet *set);
FcFontSet *FcFontList(void *config, FcPattern *pattern, FcObjectSet *set);
void FcFontSetDestroy(FcFontSet *set);
int FcPatternGetString(const FcPattern *pattern, const char *object, int n, unsigned char **s);
]]

local FC_MATCH = 0

local function installed_families()
  local fc = library.open 'libfontconfig.so.1'
  if not fc then return {} end
  if not pcall(ffi.typeof, 'FcFontSet') then ffi.cdef(DECLARATIONS) end
  local found = {}
  if fc.FcInit() == 0 then return found end
  local pattern, wanted = fc.FcPatternCreate(), fc.FcObjectSetCreate()
  fc.FcObjectSetAdd(wanted, 'family')
  local set = fc.FcFontList(nil, pattern, wanted)
  if set ~= nil then
    local name = ffi.new('unsigned char *[1]')
    for i = 0, set.nfont - 1 do
      local n = 0
      while fc.FcPatternGetString(set.fonts[i], 'family', n, name) == FC_MATCH do
        found[ffi.string(name[0])] = true
        n = n + 1
      end
    end
    fc.FcFontSetDestroy(set)
  end
  fc.FcObjectSetDestroy(wanted)
  fc.FcPatternDestroy(pattern)
  return found
end

local chosen

--- The family figures are set in on this machine; found once.
---@return string family a name for Cairo, `@cairo:` where no font is installed
function M.default()
  if chosen then return chosen end
  local there = installed_families()
  for _, family in ipairs(PREFERRED) do
    if there[family] then
      chosen = family
      return chosen
    end
  end
  -- Some font is better than the strokes, whatever it is; "sans" lets fontconfig pick it.
  chosen = next(there) and 'sans' or M.BUILT_IN
  return chosen
end

--- How much a family is narrowed, 1 for not at all.
---@param family string
---@return number factor
function M.narrowing(family)
  return NARROW[family] or 1
end

-- What the built-in font cannot draw, in ASCII.
local ASCII = {
  ['×'] = 'x', ['·'] = '*', ['µ'] = 'u', ['−'] = '-', ['–'] = '-', ['—'] = '-', ['±'] = '+-',
  ['≤'] = '<=', ['≥'] = '>=', ['→'] = '->', ['…'] = '...', ['\226\128\137'] = ' ',
  ['\194\160'] = ' ',
  ['\226\128\175'] = ' ', ['“'] = '"', ['”'] = '"', ['’'] = "'", ['•'] = '*', ['≈'] = '~',
  ['²'] = '2',
  ['∞'] = 'inf', ['°'] = ' deg', ['√'] = 'sqrt',
}

--- A text as a family can draw it: unchanged, or in ASCII for the built-in font.
---@param text string UTF-8
---@param family string
---@return string text
function M.drawable(text, family)
  if family ~= M.BUILT_IN or not text:find('[\128-\255]') then return text end
  return (text:gsub('[\194-\244][\128-\191]*', function(char) return ASCII[char] or '?' end))
end

return M
