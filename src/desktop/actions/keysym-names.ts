/**
 * The names of keysyms from X.Org's keysymdef.h and XF86keysym.h, without Braille, Sinhala, the keys of 3270 terminals and those that move
 * a pointer. A group is a hexadecimal number, followed by the names of this keysym and of the following ones. A letter or a digit is its
 * own name.
 */
const GROUPS = `
  ff08:BackSpace,Tab,Linefeed,Clear ff0d:Return ff13:Pause,Scroll_Lock,Sys_Req ff1b:Escape ffff:Delete ff20:Multi_key
  ff37:Codeinput ff3c:SingleCandidate,MultipleCandidate,PreviousCandidate ff21:Kanji,Muhenkan,Henkan_Mode
  ff23:Henkan,Romaji,Hiragana,Katakana,Hiragana_Katakana,Zenkaku,Hankaku,Zenkaku_Hankaku,Touroku,Massyo,Kana_Lock,Kana_Shift
  ff2f:Eisu_Shift,Eisu_toggle ff37:Kanji_Bangou ff3d:Zen_Koho,Mae_Koho ff50:Home,Left,Up,Right,Down,Prior ff55:Page_Up,Next
  ff56:Page_Down,End,Begin ff60:Select,Print,Execute,Insert ff65:Undo,Redo,Menu,Find,Cancel,Help,Break ff7e:Mode_switch
  ff7e:script_switch,Num_Lock,KP_Space ff89:KP_Tab ff8d:KP_Enter
  ff91:KP_F1,KP_F2,KP_F3,KP_F4,KP_Home,KP_Left,KP_Up,KP_Right,KP_Down,KP_Prior ff9a:KP_Page_Up,KP_Next
  ff9b:KP_Page_Down,KP_End,KP_Begin,KP_Insert,KP_Delete ffbd:KP_Equal
  ffaa:KP_Multiply,KP_Add,KP_Separator,KP_Subtract,KP_Decimal,KP_Divide,KP_0,KP_1,KP_2,KP_3,KP_4,KP_5,KP_6,KP_7,KP_8,KP_9
  ffbe:F1,F2,F3,F4,F5,F6,F7,F8,F9,F10,F11 ffc8:L1,F12 ffc9:L2,F13 ffca:L3,F14 ffcb:L4,F15 ffcc:L5,F16 ffcd:L6,F17 ffce:L7,F18 ffcf:L8,F19
  ffd0:L9,F20 ffd1:L10,F21 ffd2:R1,F22 ffd3:R2,F23 ffd4:R3,F24 ffd5:R4,F25 ffd6:R5,F26 ffd7:R6,F27 ffd8:R7,F28 ffd9:R8,F29 ffda:R9,F30
  ffdb:R10,F31 ffdc:R11,F32 ffdd:R12,F33 ffde:R13,F34 ffdf:R14,F35
  ffe0:R15,Shift_L,Shift_R,Control_L,Control_R,Caps_Lock,Shift_Lock,Meta_L,Meta_R,Alt_L,Alt_R,Super_L,Super_R,Hyper_L,Hyper_R
  fe01:ISO_Lock,ISO_Level2_Latch,ISO_Level3_Shift,ISO_Level3_Latch,ISO_Level3_Lock fe11:ISO_Level5_Shift,ISO_Level5_Latch,ISO_Level5_Lock
  ff7e:ISO_Group_Shift
  fe06:ISO_Group_Latch,ISO_Group_Lock,ISO_Next_Group,ISO_Next_Group_Lock,ISO_Prev_Group,ISO_Prev_Group_Lock,ISO_First_Group
  fe0d:ISO_First_Group_Lock,ISO_Last_Group,ISO_Last_Group_Lock
  fe20:ISO_Left_Tab,ISO_Move_Line_Up,ISO_Move_Line_Down,ISO_Partial_Line_Up,ISO_Partial_Line_Down,ISO_Partial_Space_Left
  fe26:ISO_Partial_Space_Right,ISO_Set_Margin_Left,ISO_Set_Margin_Right,ISO_Release_Margin_Left,ISO_Release_Margin_Right
  fe2b:ISO_Release_Both_Margins,ISO_Fast_Cursor_Left,ISO_Fast_Cursor_Right,ISO_Fast_Cursor_Up,ISO_Fast_Cursor_Down
  fe30:ISO_Continuous_Underline,ISO_Discontinuous_Underline,ISO_Emphasize,ISO_Center_Object,ISO_Enter
  fe50:dead_grave,dead_acute,dead_circumflex,dead_tilde
  fe53:dead_perispomeni,dead_macron,dead_breve,dead_abovedot,dead_diaeresis,dead_abovering,dead_doubleacute,dead_caron,dead_cedilla
  fe5c:dead_ogonek,dead_iota,dead_voiced_sound,dead_semivoiced_sound,dead_belowdot,dead_hook,dead_horn,dead_stroke,dead_abovecomma
  fe64:dead_psili,dead_abovereversedcomma
  fe65:dead_dasia,dead_doublegrave,dead_belowring,dead_belowmacron,dead_belowcircumflex,dead_belowtilde,dead_belowbreve
  fe6c:dead_belowdiaeresis,dead_invertedbreve,dead_belowcomma,dead_currency
  fe90:dead_lowline,dead_aboveverticalline,dead_belowverticalline,dead_longsolidusoverlay
  fe80:dead_a,dead_A,dead_e,dead_E,dead_i,dead_I,dead_o,dead_O,dead_u,dead_U,dead_small_schwa,dead_capital_schwa,dead_greek
  fed0:First_Virtual_Screen,Prev_Virtual_Screen,Next_Virtual_Screen fed4:Last_Virtual_Screen,Terminate_Server
  fe70:AccessX_Enable,AccessX_Feedback_Enable,RepeatKeys_Enable,SlowKeys_Enable,BounceKeys_Enable,StickyKeys_Enable,MouseKeys_Enable
  fe77:MouseKeys_Accel_Enable,Overlay1_Enable,Overlay2_Enable,AudibleBell_Enable fea0:ch,Ch,CH,c_h,C_h,C_H
  20:space,exclam,quotedbl,numbersign,dollar,percent,ampersand,apostrophe
  27:quoteright,parenleft,parenright,asterisk,plus,comma,minus,period,slash 3a:colon,semicolon,less,equal,greater,question,at
  5b:bracketleft,backslash,bracketright,asciicircum,underscore,grave 60:quoteleft 7b:braceleft,bar,braceright,asciitilde
  a0:nobreakspace,exclamdown,cent,sterling,currency,yen,brokenbar,section,diaeresis,copyright,ordfeminine,guillemotleft,notsign
  ad:hyphen,registered,macron,degree,plusminus,twosuperior,threesuperior,acute,mu,paragraph,periodcentered,cedilla,onesuperior
  ba:masculine,guillemotright,onequarter,onehalf,threequarters,questiondown,Agrave,Aacute,Acircumflex,Atilde,Adiaeresis,Aring,AE
  c7:Ccedilla,Egrave,Eacute,Ecircumflex,Ediaeresis,Igrave,Iacute,Icircumflex,Idiaeresis,ETH
  d0:Eth,Ntilde,Ograve,Oacute,Ocircumflex,Otilde,Odiaeresis,multiply,Oslash d8:Ooblique,Ugrave,Uacute,Ucircumflex,Udiaeresis,Yacute,THORN
  de:Thorn,ssharp,agrave,aacute,acircumflex,atilde,adiaeresis,aring,ae,ccedilla,egrave,eacute,ecircumflex,ediaeresis,igrave,iacute
  ee:icircumflex,idiaeresis,eth,ntilde,ograve,oacute,ocircumflex,otilde,odiaeresis,division,oslash
  f8:ooblique,ugrave,uacute,ucircumflex,udiaeresis,yacute,thorn,ydiaeresis 1a1:Aogonek,breve,Lstroke 1a5:Lcaron,Sacute
  1a9:Scaron,Scedilla,Tcaron,Zacute 1ae:Zcaron,Zabovedot 1b1:aogonek,ogonek,lstroke 1b5:lcaron,sacute,caron
  1b9:scaron,scedilla,tcaron,zacute,doubleacute,zcaron,zabovedot,Racute 1c3:Abreve 1c5:Lacute,Cacute 1c8:Ccaron 1ca:Eogonek 1cc:Ecaron
  1cf:Dcaron,Dstroke,Nacute,Ncaron 1d5:Odoubleacute 1d8:Rcaron,Uring 1db:Udoubleacute 1de:Tcedilla 1e0:racute 1e3:abreve 1e5:lacute,cacute
  1e8:ccaron 1ea:eogonek 1ec:ecaron 1ef:dcaron,dstroke,nacute,ncaron 1f5:odoubleacute 1f8:rcaron,uring 1fb:udoubleacute
  1fe:tcedilla,abovedot 2a1:Hstroke 2a6:Hcircumflex 2a9:Iabovedot 2ab:Gbreve,Jcircumflex 2b1:hstroke 2b6:hcircumflex 2b9:idotless
  2bb:gbreve,jcircumflex 2c5:Cabovedot,Ccircumflex 2d5:Gabovedot 2d8:Gcircumflex 2dd:Ubreve,Scircumflex 2e5:cabovedot,ccircumflex
  2f5:gabovedot 2f8:gcircumflex 2fd:ubreve,scircumflex 3a2:kra 3a2:kappa,Rcedilla 3a5:Itilde,Lcedilla 3aa:Emacron,Gcedilla,Tslash
  3b3:rcedilla 3b5:itilde,lcedilla 3ba:emacron,gcedilla,tslash,ENG 3bf:eng,Amacron 3c7:Iogonek 3cc:Eabovedot 3cf:Imacron
  3d1:Ncedilla,Omacron,Kcedilla 3d9:Uogonek 3dd:Utilde,Umacron 3e0:amacron 3e7:iogonek 3ec:eabovedot 3ef:imacron
  3f1:ncedilla,omacron,kcedilla 3f9:uogonek 3fd:utilde,umacron 1000174:Wcircumflex,wcircumflex,Ycircumflex,ycircumflex
  1001e02:Babovedot,babovedot 1001e0a:Dabovedot,dabovedot 1001e1e:Fabovedot,fabovedot 1001e40:Mabovedot,mabovedot
  1001e56:Pabovedot,pabovedot 1001e60:Sabovedot,sabovedot 1001e6a:Tabovedot,tabovedot
  1001e80:Wgrave,wgrave,Wacute,wacute,Wdiaeresis,wdiaeresis 1001ef2:Ygrave,ygrave 13bc:OE,oe,Ydiaeresis 47e:overline
  4a1:kana_fullstop,kana_openingbracket,kana_closingbracket,kana_comma,kana_conjunctive
  4a5:kana_middledot,kana_WO,kana_a,kana_i,kana_u,kana_e,kana_o,kana_ya,kana_yu,kana_yo,kana_tsu
  4af:kana_tu,prolongedsound,kana_A,kana_I,kana_U,kana_E,kana_O,kana_KA,kana_KI,kana_KU,kana_KE,kana_KO,kana_SA,kana_SHI,kana_SU
  4be:kana_SE,kana_SO,kana_TA,kana_CHI 4c1:kana_TI,kana_TSU
  4c2:kana_TU,kana_TE,kana_TO,kana_NA,kana_NI,kana_NU,kana_NE,kana_NO,kana_HA,kana_HI,kana_FU
  4cc:kana_HU,kana_HE,kana_HO,kana_MA,kana_MI,kana_MU,kana_ME,kana_MO,kana_YA,kana_YU,kana_YO,kana_RA,kana_RI,kana_RU,kana_RE
  4db:kana_RO,kana_WA,kana_N,voicedsound,semivoicedsound ff7e:kana_switch
  10006f0:Farsi_0,Farsi_1,Farsi_2,Farsi_3,Farsi_4,Farsi_5,Farsi_6,Farsi_7,Farsi_8,Farsi_9 100066a:Arabic_percent
  1000670:Arabic_superscript_alef 1000679:Arabic_tteh 100067e:Arabic_peh 1000686:Arabic_tcheh 1000688:Arabic_ddal 1000691:Arabic_rreh
  5ac:Arabic_comma 10006d4:Arabic_fullstop 1000660:Arabic_0,Arabic_1,Arabic_2,Arabic_3,Arabic_4,Arabic_5,Arabic_6,Arabic_7,Arabic_8,Arabic_9
  5bb:Arabic_semicolon 5bf:Arabic_question_mark
  5c1:Arabic_hamza,Arabic_maddaonalef,Arabic_hamzaonalef,Arabic_hamzaonwaw,Arabic_hamzaunderalef,Arabic_hamzaonyeh,Arabic_alef
  5c8:Arabic_beh,Arabic_tehmarbuta,Arabic_teh,Arabic_theh,Arabic_jeem,Arabic_hah,Arabic_khah,Arabic_dal,Arabic_thal,Arabic_ra
  5d2:Arabic_zain,Arabic_seen,Arabic_sheen,Arabic_sad,Arabic_dad,Arabic_tah,Arabic_zah,Arabic_ain,Arabic_ghain
  5e0:Arabic_tatweel,Arabic_feh,Arabic_qaf,Arabic_kaf,Arabic_lam,Arabic_meem,Arabic_noon,Arabic_ha
  5e7:Arabic_heh,Arabic_waw,Arabic_alefmaksura,Arabic_yeh,Arabic_fathatan,Arabic_dammatan,Arabic_kasratan,Arabic_fatha,Arabic_damma
  5f0:Arabic_kasra,Arabic_shadda,Arabic_sukun 1000653:Arabic_madda_above,Arabic_hamza_above,Arabic_hamza_below 1000698:Arabic_jeh
  10006a4:Arabic_veh 10006a9:Arabic_keheh 10006af:Arabic_gaf 10006ba:Arabic_noon_ghunna 10006be:Arabic_heh_doachashmee 10006cc:Farsi_yeh
  10006cc:Arabic_farsi_yeh 10006d2:Arabic_yeh_baree 10006c1:Arabic_heh_goal ff7e:Arabic_switch 1000492:Cyrillic_GHE_bar,Cyrillic_ghe_bar
  1000496:Cyrillic_ZHE_descender,Cyrillic_zhe_descender
  100049a:Cyrillic_KA_descender,Cyrillic_ka_descender,Cyrillic_KA_vertstroke,Cyrillic_ka_vertstroke
  10004a2:Cyrillic_EN_descender,Cyrillic_en_descender
  10004ae:Cyrillic_U_straight,Cyrillic_u_straight,Cyrillic_U_straight_bar,Cyrillic_u_straight_bar,Cyrillic_HA_descender
  10004b3:Cyrillic_ha_descender
  10004b6:Cyrillic_CHE_descender,Cyrillic_che_descender,Cyrillic_CHE_vertstroke,Cyrillic_che_vertstroke,Cyrillic_SHHA,Cyrillic_shha
  10004d8:Cyrillic_SCHWA,Cyrillic_schwa 10004e2:Cyrillic_I_macron,Cyrillic_i_macron 10004e8:Cyrillic_O_bar,Cyrillic_o_bar
  10004ee:Cyrillic_U_macron,Cyrillic_u_macron 6a1:Serbian_dje,Macedonia_gje,Cyrillic_io,Ukrainian_ie
  6a4:Ukranian_je,Macedonia_dse,Ukrainian_i 6a6:Ukranian_i,Ukrainian_yi 6a7:Ukranian_yi,Cyrillic_je 6a8:Serbian_je,Cyrillic_lje
  6a9:Serbian_lje,Cyrillic_nje 6aa:Serbian_nje,Serbian_tshe,Macedonia_kje,Ukrainian_ghe_with_upturn,Byelorussian_shortu,Cyrillic_dzhe
  6af:Serbian_dze,numerosign,Serbian_DJE,Macedonia_GJE,Cyrillic_IO,Ukrainian_IE 6b4:Ukranian_JE,Macedonia_DSE,Ukrainian_I
  6b6:Ukranian_I,Ukrainian_YI 6b7:Ukranian_YI,Cyrillic_JE 6b8:Serbian_JE,Cyrillic_LJE 6b9:Serbian_LJE,Cyrillic_NJE
  6ba:Serbian_NJE,Serbian_TSHE,Macedonia_KJE,Ukrainian_GHE_WITH_UPTURN,Byelorussian_SHORTU,Cyrillic_DZHE
  6bf:Serbian_DZE,Cyrillic_yu,Cyrillic_a,Cyrillic_be,Cyrillic_tse,Cyrillic_de,Cyrillic_ie,Cyrillic_ef,Cyrillic_ghe,Cyrillic_ha
  6c9:Cyrillic_i,Cyrillic_shorti,Cyrillic_ka,Cyrillic_el,Cyrillic_em,Cyrillic_en,Cyrillic_o,Cyrillic_pe,Cyrillic_ya,Cyrillic_er
  6d3:Cyrillic_es,Cyrillic_te,Cyrillic_u,Cyrillic_zhe,Cyrillic_ve,Cyrillic_softsign,Cyrillic_yeru,Cyrillic_ze,Cyrillic_sha
  6dc:Cyrillic_e,Cyrillic_shcha,Cyrillic_che,Cyrillic_hardsign,Cyrillic_YU,Cyrillic_A,Cyrillic_BE,Cyrillic_TSE,Cyrillic_DE
  6e5:Cyrillic_IE,Cyrillic_EF,Cyrillic_GHE,Cyrillic_HA,Cyrillic_I,Cyrillic_SHORTI,Cyrillic_KA,Cyrillic_EL,Cyrillic_EM,Cyrillic_EN
  6ef:Cyrillic_O,Cyrillic_PE,Cyrillic_YA,Cyrillic_ER,Cyrillic_ES,Cyrillic_TE,Cyrillic_U,Cyrillic_ZHE,Cyrillic_VE,Cyrillic_SOFTSIGN
  6f9:Cyrillic_YERU,Cyrillic_ZE,Cyrillic_SHA,Cyrillic_E,Cyrillic_SHCHA,Cyrillic_CHE,Cyrillic_HARDSIGN
  7a1:Greek_ALPHAaccent,Greek_EPSILONaccent,Greek_ETAaccent,Greek_IOTAaccent,Greek_IOTAdieresis 7a5:Greek_IOTAdiaeresis
  7a7:Greek_OMICRONaccent,Greek_UPSILONaccent,Greek_UPSILONdieresis 7ab:Greek_OMEGAaccent 7ae:Greek_accentdieresis,Greek_horizbar
  7b1:Greek_alphaaccent,Greek_epsilonaccent,Greek_etaaccent,Greek_iotaaccent,Greek_iotadieresis,Greek_iotaaccentdieresis
  7b7:Greek_omicronaccent,Greek_upsilonaccent,Greek_upsilondieresis,Greek_upsilonaccentdieresis,Greek_omegaaccent
  7c1:Greek_ALPHA,Greek_BETA,Greek_GAMMA,Greek_DELTA,Greek_EPSILON,Greek_ZETA,Greek_ETA,Greek_THETA,Greek_IOTA,Greek_KAPPA 7cb:Greek_LAMDA
  7cb:Greek_LAMBDA,Greek_MU,Greek_NU,Greek_XI,Greek_OMICRON,Greek_PI,Greek_RHO,Greek_SIGMA
  7d4:Greek_TAU,Greek_UPSILON,Greek_PHI,Greek_CHI,Greek_PSI,Greek_OMEGA
  7e1:Greek_alpha,Greek_beta,Greek_gamma,Greek_delta,Greek_epsilon,Greek_zeta,Greek_eta,Greek_theta,Greek_iota,Greek_kappa 7eb:Greek_lamda
  7eb:Greek_lambda,Greek_mu,Greek_nu,Greek_xi,Greek_omicron,Greek_pi,Greek_rho,Greek_sigma,Greek_finalsmallsigma,Greek_tau
  7f5:Greek_upsilon,Greek_phi,Greek_chi,Greek_psi,Greek_omega ff7e:Greek_switch
  8a1:leftradical,topleftradical,horizconnector,topintegral,botintegral,vertconnector,topleftsqbracket,botleftsqbracket
  8a9:toprightsqbracket,botrightsqbracket,topleftparens,botleftparens,toprightparens,botrightparens,leftmiddlecurlybrace
  8b0:rightmiddlecurlybrace,topleftsummation,botleftsummation,topvertsummationconnector,botvertsummationconnector,toprightsummation
  8b6:botrightsummation,rightmiddlesummation 8bc:lessthanequal,notequal,greaterthanequal,integral,therefore,variation,infinity 8c5:nabla
  8c8:approximate,similarequal 8cd:ifonlyif,implies,identical 8d6:radical 8da:includedin,includes,intersection,union,logicaland,logicalor
  8ef:partialderivative 8f6:function 8fb:leftarrow,uparrow,rightarrow,downarrow 9df:blank,soliddiamond,checkerboard,ht,ff,cr,lf
  9e8:nl,vt,lowrightcorner,uprightcorner,upleftcorner,lowleftcorner,crossinglines,horizlinescan1,horizlinescan3,horizlinescan5
  9f2:horizlinescan7,horizlinescan9,leftt,rightt,bott,topt,vertbar
  aa1:emspace,enspace,em3space,em4space,digitspace,punctspace,thinspace,hairspace,emdash,endash aac:signifblank
  aae:ellipsis,doubbaselinedot,onethird,twothirds,onefifth,twofifths,threefifths,fourfifths,onesixth,fivesixths,careof
  abb:figdash,leftanglebracket,decimalpoint,rightanglebracket,marker ac3:oneeighth,threeeighths,fiveeighths,seveneighths
  ac9:trademark,signaturemark,trademarkincircle,leftopentriangle,rightopentriangle,emopencircle,emopenrectangle,leftsinglequotemark
  ad1:rightsinglequotemark,leftdoublequotemark,rightdoublequotemark,prescription,permille,minutes,seconds
  ad9:latincross,hexagram,filledrectbullet,filledlefttribullet,filledrighttribullet,emfilledcircle,emfilledrect,enopencircbullet
  ae1:enopensquarebullet,openrectbullet,opentribulletup,opentribulletdown,openstar,enfilledcircbullet,enfilledsqbullet
  ae8:filledtribulletup,filledtribulletdown,leftpointer,rightpointer,club,diamond,heart
  af0:maltesecross,dagger,doubledagger,checkmark,ballotcross,musicalsharp,musicalflat,malesymbol,femalesymbol,telephone
  afa:telephonerecorder,phonographcopyright,caret,singlelowquotemark,doublelowquotemark,cursor ba3:leftcaret ba6:rightcaret
  ba8:downcaret,upcaret bc0:overbar bc2:downtack,upshoe,downstile bc6:underbar bca:jot bcc:quad bce:uptack,circle bd3:upstile bd6:downshoe
  bd8:rightshoe bda:leftshoe bdc:lefttack bfc:righttack cdf:hebrew_doublelowline,hebrew_aleph,hebrew_bet ce1:hebrew_beth,hebrew_gimel
  ce2:hebrew_gimmel,hebrew_dalet ce3:hebrew_daleth,hebrew_he,hebrew_waw,hebrew_zain ce6:hebrew_zayin,hebrew_chet ce7:hebrew_het,hebrew_tet
  ce8:hebrew_teth,hebrew_yod,hebrew_finalkaph,hebrew_kaph,hebrew_lamed,hebrew_finalmem,hebrew_mem,hebrew_finalnun,hebrew_nun
  cf1:hebrew_samech cf1:hebrew_samekh,hebrew_ayin,hebrew_finalpe,hebrew_pe,hebrew_finalzade cf5:hebrew_finalzadi,hebrew_zade
  cf6:hebrew_zadi,hebrew_qoph cf7:hebrew_kuf,hebrew_resh,hebrew_shin,hebrew_taw cfa:hebrew_taf ff7e:Hebrew_switch
  da1:Thai_kokai,Thai_khokhai,Thai_khokhuat,Thai_khokhwai,Thai_khokhon,Thai_khorakhang,Thai_ngongu,Thai_chochan,Thai_choching
  daa:Thai_chochang,Thai_soso,Thai_chochoe,Thai_yoying,Thai_dochada,Thai_topatak,Thai_thothan,Thai_thonangmontho,Thai_thophuthao
  db3:Thai_nonen,Thai_dodek,Thai_totao,Thai_thothung,Thai_thothahan,Thai_thothong,Thai_nonu,Thai_bobaimai,Thai_popla,Thai_phophung
  dbd:Thai_fofa,Thai_phophan,Thai_fofan,Thai_phosamphao,Thai_moma,Thai_yoyak,Thai_rorua,Thai_ru,Thai_loling,Thai_lu,Thai_wowaen
  dc8:Thai_sosala,Thai_sorusi,Thai_sosua,Thai_hohip,Thai_lochula,Thai_oang,Thai_honokhuk,Thai_paiyannoi,Thai_saraa,Thai_maihanakat
  dd2:Thai_saraaa,Thai_saraam,Thai_sarai,Thai_saraii,Thai_saraue,Thai_sarauee,Thai_sarau,Thai_sarauu,Thai_phinthu
  dde:Thai_maihanakat_maitho,Thai_baht,Thai_sarae,Thai_saraae,Thai_sarao,Thai_saraaimaimuan,Thai_saraaimaimalai,Thai_lakkhangyao
  de6:Thai_maiyamok,Thai_maitaikhu,Thai_maiek,Thai_maitho,Thai_maitri,Thai_maichattawa,Thai_thanthakhat,Thai_nikhahit
  df0:Thai_leksun,Thai_leknung,Thai_leksong,Thai_leksam,Thai_leksi,Thai_lekha,Thai_lekhok,Thai_lekchet,Thai_lekpaet,Thai_lekkao
  ff31:Hangul,Hangul_Start,Hangul_End,Hangul_Hanja,Hangul_Jamo,Hangul_Romaja,Hangul_Codeinput,Hangul_Jeonja,Hangul_Banja
  ff3a:Hangul_PreHanja,Hangul_PostHanja,Hangul_SingleCandidate,Hangul_MultipleCandidate,Hangul_PreviousCandidate,Hangul_Special
  ff7e:Hangul_switch ea1:Hangul_Kiyeog,Hangul_SsangKiyeog,Hangul_KiyeogSios,Hangul_Nieun,Hangul_NieunJieuj,Hangul_NieunHieuh,Hangul_Dikeud
  ea8:Hangul_SsangDikeud,Hangul_Rieul,Hangul_RieulKiyeog,Hangul_RieulMieum,Hangul_RieulPieub,Hangul_RieulSios,Hangul_RieulTieut
  eaf:Hangul_RieulPhieuf,Hangul_RieulHieuh,Hangul_Mieum,Hangul_Pieub,Hangul_SsangPieub,Hangul_PieubSios,Hangul_Sios,Hangul_SsangSios
  eb7:Hangul_Ieung,Hangul_Jieuj,Hangul_SsangJieuj,Hangul_Cieuc,Hangul_Khieuq,Hangul_Tieut,Hangul_Phieuf,Hangul_Hieuh,Hangul_A
  ec0:Hangul_AE,Hangul_YA,Hangul_YAE,Hangul_EO,Hangul_E,Hangul_YEO,Hangul_YE,Hangul_O,Hangul_WA,Hangul_WAE,Hangul_OE,Hangul_YO
  ecc:Hangul_U,Hangul_WEO,Hangul_WE,Hangul_WI,Hangul_YU,Hangul_EU,Hangul_YI,Hangul_I,Hangul_J_Kiyeog,Hangul_J_SsangKiyeog
  ed6:Hangul_J_KiyeogSios,Hangul_J_Nieun,Hangul_J_NieunJieuj,Hangul_J_NieunHieuh,Hangul_J_Dikeud,Hangul_J_Rieul,Hangul_J_RieulKiyeog
  edd:Hangul_J_RieulMieum,Hangul_J_RieulPieub,Hangul_J_RieulSios,Hangul_J_RieulTieut,Hangul_J_RieulPhieuf,Hangul_J_RieulHieuh
  ee3:Hangul_J_Mieum,Hangul_J_Pieub,Hangul_J_PieubSios,Hangul_J_Sios,Hangul_J_SsangSios,Hangul_J_Ieung,Hangul_J_Jieuj,Hangul_J_Cieuc
  eeb:Hangul_J_Khieuq,Hangul_J_Tieut,Hangul_J_Phieuf,Hangul_J_Hieuh,Hangul_RieulYeorinHieuh,Hangul_SunkyeongeumMieum
  ef1:Hangul_SunkyeongeumPieub,Hangul_PanSios,Hangul_KkogjiDalrinIeung,Hangul_SunkyeongeumPhieuf,Hangul_YeorinHieuh,Hangul_AraeA
  ef7:Hangul_AraeAE,Hangul_J_PanSios,Hangul_J_KkogjiDalrinIeung,Hangul_J_YeorinHieuh eff:Korean_Won 1000587:Armenian_ligature_ew
  1000589:Armenian_full_stop 1000589:Armenian_verjaket 100055d:Armenian_separation_mark 100055d:Armenian_but 100058a:Armenian_hyphen
  100058a:Armenian_yentamna 100055c:Armenian_exclam 100055c:Armenian_amanak 100055b:Armenian_accent 100055b:Armenian_shesht
  100055e:Armenian_question 100055e:Armenian_paruyk 1000531:Armenian_AYB 1000561:Armenian_ayb 1000532:Armenian_BEN 1000562:Armenian_ben
  1000533:Armenian_GIM 1000563:Armenian_gim 1000534:Armenian_DA 1000564:Armenian_da 1000535:Armenian_YECH 1000565:Armenian_yech
  1000536:Armenian_ZA 1000566:Armenian_za 1000537:Armenian_E 1000567:Armenian_e 1000538:Armenian_AT 1000568:Armenian_at 1000539:Armenian_TO
  1000569:Armenian_to 100053a:Armenian_ZHE 100056a:Armenian_zhe 100053b:Armenian_INI 100056b:Armenian_ini 100053c:Armenian_LYUN
  100056c:Armenian_lyun 100053d:Armenian_KHE 100056d:Armenian_khe 100053e:Armenian_TSA 100056e:Armenian_tsa 100053f:Armenian_KEN
  100056f:Armenian_ken 1000540:Armenian_HO 1000570:Armenian_ho 1000541:Armenian_DZA 1000571:Armenian_dza 1000542:Armenian_GHAT
  1000572:Armenian_ghat 1000543:Armenian_TCHE 1000573:Armenian_tche 1000544:Armenian_MEN 1000574:Armenian_men 1000545:Armenian_HI
  1000575:Armenian_hi 1000546:Armenian_NU 1000576:Armenian_nu 1000547:Armenian_SHA 1000577:Armenian_sha 1000548:Armenian_VO
  1000578:Armenian_vo 1000549:Armenian_CHA 1000579:Armenian_cha 100054a:Armenian_PE 100057a:Armenian_pe 100054b:Armenian_JE
  100057b:Armenian_je 100054c:Armenian_RA 100057c:Armenian_ra 100054d:Armenian_SE 100057d:Armenian_se 100054e:Armenian_VEV
  100057e:Armenian_vev 100054f:Armenian_TYUN 100057f:Armenian_tyun 1000550:Armenian_RE 1000580:Armenian_re 1000551:Armenian_TSO
  1000581:Armenian_tso 1000552:Armenian_VYUN 1000582:Armenian_vyun 1000553:Armenian_PYUR 1000583:Armenian_pyur 1000554:Armenian_KE
  1000584:Armenian_ke 1000555:Armenian_O 1000585:Armenian_o 1000556:Armenian_FE 1000586:Armenian_fe 100055a:Armenian_apostrophe
  10010d0:Georgian_an,Georgian_ban,Georgian_gan,Georgian_don,Georgian_en,Georgian_vin,Georgian_zen,Georgian_tan,Georgian_in
  10010d9:Georgian_kan,Georgian_las,Georgian_man,Georgian_nar,Georgian_on,Georgian_par,Georgian_zhar,Georgian_rae,Georgian_san
  10010e2:Georgian_tar,Georgian_un,Georgian_phar,Georgian_khar,Georgian_ghan,Georgian_qar,Georgian_shin,Georgian_chin,Georgian_can
  10010eb:Georgian_jil,Georgian_cil,Georgian_char,Georgian_xan,Georgian_jhan,Georgian_hae,Georgian_he,Georgian_hie,Georgian_we
  10010f4:Georgian_har,Georgian_hoe,Georgian_fi 1001e8a:Xabovedot 100012c:Ibreve 10001b5:Zstroke 10001e6:Gcaron 10001d1:Ocaron
  100019f:Obarred 1001e8b:xabovedot 100012d:ibreve 10001b6:zstroke 10001e7:gcaron 10001d2:ocaron 1000275:obarred 100018f:SCHWA 1000259:schwa
  10001b7:EZH 1000292:ezh 1001e36:Lbelowdot,lbelowdot
  1001ea0:Abelowdot,abelowdot,Ahook,ahook,Acircumflexacute,acircumflexacute,Acircumflexgrave,acircumflexgrave,Acircumflexhook
  1001ea9:acircumflexhook,Acircumflextilde,acircumflextilde,Acircumflexbelowdot,acircumflexbelowdot,Abreveacute,abreveacute
  1001eb0:Abrevegrave,abrevegrave,Abrevehook,abrevehook,Abrevetilde,abrevetilde,Abrevebelowdot,abrevebelowdot,Ebelowdot,ebelowdot
  1001eba:Ehook,ehook,Etilde,etilde,Ecircumflexacute,ecircumflexacute,Ecircumflexgrave,ecircumflexgrave,Ecircumflexhook
  1001ec3:ecircumflexhook,Ecircumflextilde,ecircumflextilde,Ecircumflexbelowdot,ecircumflexbelowdot,Ihook,ihook,Ibelowdot,ibelowdot
  1001ecc:Obelowdot,obelowdot,Ohook,ohook,Ocircumflexacute,ocircumflexacute,Ocircumflexgrave,ocircumflexgrave,Ocircumflexhook
  1001ed5:ocircumflexhook,Ocircumflextilde,ocircumflextilde,Ocircumflexbelowdot,ocircumflexbelowdot,Ohornacute,ohornacute,Ohorngrave
  1001edd:ohorngrave,Ohornhook,ohornhook,Ohorntilde,ohorntilde,Ohornbelowdot,ohornbelowdot,Ubelowdot,ubelowdot,Uhook,uhook
  1001ee8:Uhornacute,uhornacute,Uhorngrave,uhorngrave,Uhornhook,uhornhook,Uhorntilde,uhorntilde,Uhornbelowdot,uhornbelowdot
  1001ef4:Ybelowdot,ybelowdot,Yhook,yhook,Ytilde,ytilde 10001a0:Ohorn,ohorn 10001af:Uhorn,uhorn 1000303:combining_tilde
  1000300:combining_grave,combining_acute 1000309:combining_hook 1000323:combining_belowdot
  10020a0:EcuSign,ColonSign,CruzeiroSign,FFrancSign,LiraSign,MillSign,NairaSign,PesetaSign,RupeeSign,WonSign,NewSheqelSign,DongSign
  20ac:EuroSign 1002070:zerosuperior 1002074:foursuperior,fivesuperior,sixsuperior,sevensuperior,eightsuperior,ninesuperior
  1002080:zerosubscript,onesubscript,twosubscript,threesubscript,foursubscript,fivesubscript,sixsubscript,sevensubscript
  1002088:eightsubscript,ninesubscript 1002202:partdifferential 1002205:emptyset 1002208:elementof,notelementof 100220b:containsas
  100221a:squareroot,cuberoot,fourthroot 100222c:dintegral,tintegral 1002235:because 1002248:approxeq 1002247:notapproxeq
  1002262:notidentical,stricteq
  1008ff01:XF86ModeLock,XF86MonBrightnessUp,XF86MonBrightnessDown,XF86KbdLightOnOff,XF86KbdBrightnessUp,XF86KbdBrightnessDown
  1008ff07:XF86MonBrightnessCycle
  1008ff10:XF86Standby,XF86AudioLowerVolume,XF86AudioMute,XF86AudioRaiseVolume,XF86AudioPlay,XF86AudioStop,XF86AudioPrev
  1008ff17:XF86AudioNext,XF86HomePage,XF86Mail,XF86Start,XF86Search,XF86AudioRecord,XF86Calculator,XF86Memo,XF86ToDoList
  1008ff20:XF86Calendar,XF86PowerDown,XF86ContrastAdjust,XF86RockerUp,XF86RockerDown,XF86RockerEnter,XF86Back,XF86Forward,XF86Stop
  1008ff29:XF86Refresh,XF86PowerOff,XF86WakeUp,XF86Eject,XF86ScreenSaver,XF86WWW,XF86Sleep,XF86Favorites,XF86AudioPause
  1008ff32:XF86AudioMedia,XF86MyComputer,XF86VendorHome,XF86LightBulb,XF86Shop,XF86History,XF86OpenURL,XF86AddFavorite,XF86HotLinks
  1008ff3b:XF86BrightnessAdjust,XF86Finance,XF86Community,XF86AudioRewind,XF86BackForward,XF86Launch0,XF86Launch1,XF86Launch2
  1008ff43:XF86Launch3,XF86Launch4,XF86Launch5,XF86Launch6,XF86Launch7,XF86Launch8,XF86Launch9,XF86LaunchA,XF86LaunchB,XF86LaunchC
  1008ff4d:XF86LaunchD,XF86LaunchE,XF86LaunchF,XF86ApplicationLeft,XF86ApplicationRight,XF86Book,XF86CD,XF86Calculater,XF86Clear
  1008ff56:XF86Close,XF86Copy,XF86Cut,XF86Display,XF86DOS,XF86Documents,XF86Excel,XF86Explorer,XF86Game,XF86Go,XF86iTouch,XF86LogOff
  1008ff62:XF86Market,XF86Meeting
  1008ff65:XF86MenuKB,XF86MenuPB,XF86MySites,XF86New,XF86News,XF86OfficeHome,XF86Open,XF86Option,XF86Paste,XF86Phone 1008ff70:XF86Q
  1008ff72:XF86Reply,XF86Reload,XF86RotateWindows,XF86RotationPB,XF86RotationKB,XF86Save,XF86ScrollUp,XF86ScrollDown,XF86ScrollClick
  1008ff7b:XF86Send,XF86Spell,XF86SplitScreen,XF86Support,XF86TaskPane,XF86Terminal,XF86Tools,XF86Travel
  1008ff84:XF86UserPB,XF86User1KB,XF86User2KB,XF86Video,XF86WheelButton,XF86Word,XF86Xfer,XF86ZoomIn,XF86ZoomOut,XF86Away
  1008ff8e:XF86Messenger,XF86WebCam,XF86MailForward,XF86Pictures,XF86Music,XF86Battery,XF86Bluetooth,XF86WLAN,XF86UWB
  1008ff97:XF86AudioForward,XF86AudioRepeat,XF86AudioRandomPlay,XF86Subtitle,XF86AudioCycleTrack,XF86CycleAngle,XF86FrameBack
  1008ff9e:XF86FrameForward,XF86Time,XF86Select,XF86View,XF86TopMenu,XF86Red,XF86Green,XF86Yellow,XF86Blue,XF86Suspend,XF86Hibernate
  1008ffa9:XF86TouchpadToggle
  1008ffb0:XF86TouchpadOn,XF86TouchpadOff,XF86AudioMicMute,XF86Keyboard,XF86WWAN,XF86RFKill,XF86AudioPreset,XF86RotationLockToggle
  1008ffb8:XF86FullScreen
  1008fe01:XF86Switch_VT_1,XF86Switch_VT_2,XF86Switch_VT_3,XF86Switch_VT_4,XF86Switch_VT_5,XF86Switch_VT_6,XF86Switch_VT_7
  1008fe08:XF86Switch_VT_8,XF86Switch_VT_9,XF86Switch_VT_10,XF86Switch_VT_11,XF86Switch_VT_12
  1008fe20:XF86Ungrab,XF86ClearGrab,XF86Next_VMode,XF86Prev_VMode,XF86LogWindowTree,XF86LogGrabInfo
`;

/** Maps each name to its keysym. */
export const keysymNames: ReadonlyMap<string, number> = new Map(
  GROUPS.trim()
    .split(/\s+/)
    .flatMap((group) => {
      const [first = '', names = ''] = group.split(':');
      return names.split(',').map((name, index): [string, number] => [name, Number.parseInt(first, 16) + index]);
    }),
);
